/** Shells of an instance: several, each goes on when its page is closed. */
import { ActionIcon, Button, Group, Text, Tooltip } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api } from '../../app/api.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { sentenceOf } from '../../parts/trouble.tsx';
import { useFailureNotice } from '../../parts/use-failure-notice.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import type { TabProps } from './tab-props.ts';
import classes from './instance.module.css';
import { terminalsQuery } from './queries.ts';
import type { ScreenState } from './terminal-screen.ts';
import { freeTerminalName } from './terminal-names.ts';

export function TerminalTab({ view, search, change }: TabProps) {
  const { terminal: texts } = useTexts().instance;
  const { instance } = view;
  if (instance.instanceRuntimeInfo.status !== 'Running') return <EmptyState {...texts.notRunning} />;
  return (
    <Terminals
      instanceId={idOf(instance)}
      shown={search.terminal ?? 'main'}
      onShow={(terminal) => change({ terminal })}
    />
  );
}

interface TerminalsProps {
  instanceId: string;
  shown: string;
  onShow: (terminal: string) => void;
}

function Terminals({ instanceId, shown, onShow }: TerminalsProps) {
  const texts = useTexts();
  const { terminal } = texts.instance;
  const queries = useQueryClient();
  const open = useQuery(terminalsQuery(instanceId)).data ?? [];
  const names = [...new Set([...open.map((one) => one.terminal), shown])];
  const [closed, setClosed] = useState(0);
  const reload = (): Promise<void> => queries.invalidateQueries({ queryKey: terminalsQuery(instanceId).queryKey });
  const close = useMutation({
    mutationFn: (name: string) => api.closeTerminal({ instanceId, terminal: name }),
    onSuccess: async (_, name) => {
      if (name === shown) onShow(names.find((one) => one !== name) ?? 'main');
      setClosed((count) => count + 1);
      await reload();
    },
    onError: useFailureNotice(),
  });
  return (
    <>
      <Group gap={6} mb={8} role="toolbar" aria-label={terminal.list}>
        {names.map((name) => (
          <Group key={name} gap={0} wrap="nowrap">
            <Button
              variant={name === shown ? 'light' : 'default'}
              aria-pressed={name === shown}
              onClick={() => onShow(name)}
            >
              {name}
            </Button>
            <Tooltip label={terminal.closeHint}>
              <ActionIcon
                size={30}
                loading={close.isPending && close.variables === name}
                aria-label={terminal.close(name)}
                onClick={() => close.mutate(name)}
              >
                <IconX size={14} />
              </ActionIcon>
            </Tooltip>
          </Group>
        ))}
        <Button variant="subtle" leftSection={<IconPlus size={13} />} onClick={() => onShow(freeTerminalName(names))}>
          {terminal.another}
        </Button>
      </Group>
      <Screen key={`${shown} ${closed}`} instanceId={instanceId} terminal={shown} onChange={() => void reload()} />
    </>
  );
}

interface ScreenProps {
  instanceId: string;
  terminal: string;
  onChange: () => void;
}

function Screen({ instanceId, terminal, onChange }: ScreenProps) {
  const texts = useTexts();
  const words = texts.instance.terminal;
  const box = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<ScreenState>({ kind: 'connecting' });
  const [tries, setTries] = useState(0);
  const changed = useRef(onChange);
  changed.current = onChange;
  const label = words.screen(terminal);
  useEffect(() => {
    let isCurrent = true;
    let takeAway = (): void => {};
    void import('./terminal-screen.ts').then(({ showTerminal }) => {
      if (!isCurrent || box.current === null) return;
      const onState = (next: ScreenState): void => {
        setState(next);
        changed.current();
      };
      takeAway = showTerminal({ instanceId, terminal, box: box.current, label, onState });
    });
    return () => {
      isCurrent = false;
      takeAway();
    };
  }, [instanceId, terminal, label, tries]);
  return (
    <>
      <div ref={box} className={classes.terminal} data-testid="terminal" />
      <Group gap="xs" mt={6} mih={30} role="status">
        <Text size="xs" c="dimmed">
          {state.kind === 'ended'
            ? words.ended(state.exitCode)
            : state.kind === 'lost'
              ? words.lost(sentenceOf(state.error, texts))
              : state.kind === 'attached'
                ? words.attached
                : words.connecting}
        </Text>
        {(state.kind === 'ended' || state.kind === 'lost') && (
          <Button variant="default" onClick={() => setTries((count) => count + 1)}>
            {state.kind === 'ended' ? words.startAgain : words.reconnect}
          </Button>
        )}
      </Group>
    </>
  );
}

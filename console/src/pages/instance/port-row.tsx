/** A port: its links, and who may come in. */
import { Anchor, Button, Group, NativeSelect, Stack, Text } from '@mantine/core';
import { IconShare } from '@tabler/icons-react';
import type { AnswerOf } from '../../../../src/contract/routes.ts';
import { api } from '../../app/api.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { OpenPort } from './open-port.tsx';
import classes from './instance.module.css';
import { useChange } from './use-change.ts';

export type ListedPort = AnswerOf<'listPorts'>['ports'][number];
const accesses = ['owner', 'loopback', 'signedIn', 'public'] as const;

interface PortRowProps {
  port: ListedPort;
  isNotebook: boolean;
  instanceId: string;
  isRunning: boolean;
  onShare: () => void;
}

export function PortRow({ port, isNotebook, instanceId, isRunning, onShare }: PortRowProps) {
  const { ports: texts } = useTexts().instance;
  const setAccess = useChange((access: (typeof accesses)[number] | 'default') =>
    api.setPortAccess({ instanceId, port: port.port, access }),
  );
  const links = [port.hostUrl, port.pathUrl].filter((url) => url !== null);
  return (
    <section className={classes.port} aria-label={texts.port(port.port)}>
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <Text fw={600}>{texts.port(port.port)}</Text>
          {isNotebook && (
            <Text size="xs" c="dimmed">
              {texts.notebook}
            </Text>
          )}
        </Group>
        <Group gap="xs">
          <NativeSelect
            size="xs"
            aria-label={texts.whoFor(port.port)}
            value={port.isDefault ? 'default' : port.access}
            disabled={setAccess.isPending}
            onChange={({ currentTarget: { value } }) =>
              setAccess.mutate(accesses.find((one) => one === value) ?? 'default')
            }
            data={[
              { value: 'default', label: port.isDefault ? texts.defaultOf(texts.who[port.access]) : texts.default },
              ...accesses.map((value) => ({ value, label: texts.who[value] })),
            ]}
          />
          <OpenPort instanceId={instanceId} port={port.port} isRunning={isRunning} />
          <Button variant="default" size="compact-sm" leftSection={<IconShare size={13} />} onClick={onShare}>
            {texts.share}
          </Button>
        </Group>
      </Group>
      <Stack gap={2} mt={4}>
        {links.map((url) => (
          <Group key={url} gap={4} wrap="nowrap">
            <Anchor href={url} target="_blank" rel="noreferrer" size="xs" ff="monospace" truncate miw={0}>
              {url}
            </Anchor>
            <CopyButton value={url} label={texts.copyLink(port.port)} />
          </Group>
        ))}
        {port.nodePort !== null && port.nodePort.port !== 0 && (
          <Group gap={4} wrap="nowrap">
            <Text size="xs" c="dimmed">
              {texts.nodePort}
            </Text>
            <Text size="xs" ff="monospace" truncate>
              {port.nodePort.address}:{port.nodePort.port}
            </Text>
            <CopyButton
              value={`${port.nodePort.address}:${port.nodePort.port}`}
              label={texts.copyNodePort(port.port)}
            />
          </Group>
        )}
        <Text size="xs" {...(port.access === 'public' ? { className: classes.warning } : { c: 'dimmed' })}>
          {texts.means[port.access]}
        </Text>
        {port.hostUrl === null && (port.access === 'signedIn' || port.access === 'public') && (
          <Text size="xs" className={classes.warning}>
            {texts.sandboxed}
          </Text>
        )}
        {port.nodePort !== null && port.access !== 'public' && (
          <Text size="xs" className={classes.warning}>
            {texts.nodePortOpen}
          </Text>
        )}
      </Stack>
    </section>
  );
}

/** Acts on all chosen instances; what one of them refuses is not offered, with its name. */
import { Button, Group, Text, Tooltip } from '@mantine/core';
import { useState } from 'react';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { useTexts } from '../../texts/provider.tsx';
import { useAct } from './acts.ts';
import { actNames, mayAct, nameOf, type ActName } from './allowed-acts.ts';
import { TerminateDialog } from './terminate-dialog.tsx';

const SHOWN_NAMES = 3;

export function SelectionBar({ chosen, onDone }: { chosen: readonly InstanceObject[]; onDone: () => void }) {
  const { common, instances } = useTexts();
  const act = useAct();
  const [isTerminating, setTerminating] = useState(false);
  const perform = async (name: ActName): Promise<void> => {
    if (name === 'terminate') return setTerminating(true);
    await Promise.allSettled(chosen.map((instance) => act.mutateAsync({ act: name, instance })));
    onDone();
  };
  return (
    <Group gap={4} role="toolbar" aria-label={common.selected(chosen.length)}>
      <Text size="sm" c="dimmed">
        {common.selected(chosen.length)}
      </Text>
      {actNames.map((name) => {
        const refusing = chosen.filter((instance) => !mayAct(instance, name)).slice(0, SHOWN_NAMES);
        const isPossible = refusing.length === 0;
        return (
          <Tooltip key={name} disabled={isPossible} label={instances.notForAll(refusing.map(nameOf).join(', '))}>
            <Button
              variant="default"
              data-disabled={isPossible ? undefined : true}
              aria-disabled={!isPossible}
              onClick={() => isPossible && void perform(name)}
            >
              {instances.acts[name]}
            </Button>
          </Tooltip>
        );
      })}
      {isTerminating && <TerminateDialog instances={chosen} onClose={() => setTerminating(false)} onDone={onDone} />}
    </Group>
  );
}

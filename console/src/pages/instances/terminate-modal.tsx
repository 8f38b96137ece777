/** Names what a termination loses, and what stays. */
import { Button, Group, List, Text } from '@mantine/core';
import { Dialog } from '../../parts/dialog.tsx';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { useTexts } from '../../texts/provider.tsx';
import { useAct } from './acts.ts';
import { nameOf } from './allowed-acts.ts';

export interface TerminateModalProps {
  instances: readonly InstanceObject[];
  onClose: () => void;
  onDone?: () => void;
}

export function TerminateModal({ instances, onClose, onDone }: TerminateModalProps) {
  const { common, instances: texts } = useTexts();
  const act = useAct();
  const names = instances.map(nameOf).join(', ');
  const terminate = async (): Promise<void> => {
    await Promise.allSettled(instances.map((instance) => act.mutateAsync({ act: 'terminate', instance })));
    onDone?.();
    onClose();
  };
  return (
    <Dialog onClose={onClose} title={texts.terminateTitle(names)}>
      <List size="sm" spacing={4}>
        {instances.map((instance) => (
          <List.Item key={instance.instanceMetadata.instanceId}>
            {instances.length > 1 && <strong>{nameOf(instance)}: </strong>}
            {texts.terminateLoses(
              common.gb(instance.instanceRuntimeInfo.instanceDiskUsageInfo.dataDiskUsedGi),
              common.gb(instance.instanceRuntimeInfo.instanceDiskAmountInfo.dataDiskAmountGi),
            )}
          </List.Item>
        ))}
      </List>
      <Text size="sm" mt="xs">
        {texts.terminateKeeps}
      </Text>
      <Group justify="flex-end" mt="md">
        <Button variant="default" onClick={onClose} data-autofocus>
          {common.cancel}
        </Button>
        <Button color="red" loading={act.isPending} onClick={() => void terminate()}>
          {texts.acts.terminate}
        </Button>
      </Group>
    </Dialog>
  );
}

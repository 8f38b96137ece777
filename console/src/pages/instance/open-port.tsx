/** Opens a port of the instance in another tab of the browser. */
import { Button, Tooltip } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconExternalLink } from '@tabler/icons-react';
import { sentenceOf } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { openInstance } from '../instances/acts.ts';

interface OpenPortProps {
  instanceId: string;
  port: number;
  isRunning: boolean;
}

export function OpenPort({ instanceId, port, isRunning }: OpenPortProps) {
  const texts = useTexts();
  const { ports } = texts.instance;
  const open = (): void => {
    if (!isRunning) return;
    openInstance(instanceId, port).catch((error: unknown) =>
      notifications.show({ title: texts.common.failed, message: sentenceOf(error, texts), color: 'red' }),
    );
  };
  return (
    <Tooltip label={ports.onlyRunning} disabled={isRunning}>
      <Button
        variant="default"
        size="compact-sm"
        leftSection={<IconExternalLink size={13} />}
        data-disabled={isRunning ? undefined : true}
        aria-disabled={!isRunning}
        aria-label={ports.open(port)}
        onClick={open}
      >
        {ports.openShort}
      </Button>
    </Tooltip>
  );
}

/** Opens a port of the instance in another tab of the browser. */
import { Button, Tooltip } from '@mantine/core';
import { IconExternalLink } from '@tabler/icons-react';
import { useTexts } from '../../texts/provider.tsx';
import { useOpen } from '../instances/acts.ts';

interface OpenPortProps {
  instanceId: string;
  port: number;
  isRunning: boolean;
}

export function OpenPort({ instanceId, port, isRunning }: OpenPortProps) {
  const { ports } = useTexts().instance;
  const open = useOpen();
  return (
    <Tooltip label={ports.onlyRunning} disabled={isRunning}>
      <Button
        variant="default"
        size="compact-sm"
        leftSection={<IconExternalLink size={13} />}
        data-disabled={isRunning ? undefined : true}
        aria-disabled={!isRunning}
        aria-label={ports.open(port)}
        onClick={() => isRunning && open(instanceId, port)}
      >
        {ports.openShort}
      </Button>
    </Tooltip>
  );
}

/** Offers to open a port to its owner, whose program listens on loopback only. */
import { Alert, Button, Text } from '@mantine/core';
import { api } from '../../app/api.ts';
import { useTexts } from '../../texts/provider.tsx';
import { useChange } from './use-change.ts';

interface LoopbackOfferProps {
  instanceId: string;
  port: number;
  onDone: () => void;
}

export function LoopbackOffer({ instanceId, port, onDone }: LoopbackOfferProps) {
  const { ports: texts } = useTexts().instance;
  const open = useChange(() => api.setPortAccess({ instanceId, port, access: 'loopback' }));
  return (
    <Alert mb="sm">
      <Text size="sm" mb="xs">
        {texts.loopbackAsk(port)}
      </Text>
      <Button loading={open.isPending} onClick={() => open.mutate(undefined, { onSuccess: onDone })}>
        {texts.loopbackAct(port)}
      </Button>
    </Alert>
  );
}

/** Offers ports on which programs inside listen, and which the page does not list yet. */
import { Alert, Button, Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useTexts } from '../../texts/provider.tsx';
import { api } from '../../app/api.ts';
import { OpenPort } from './open-port.tsx';
import type { ListedPort } from './port-row.tsx';
import { listeningQuery } from './queries.ts';
import { useChange } from './use-change.ts';

interface ListeningPortsProps {
  instanceId: string;
  listed: readonly ListedPort[];
}

export function ListeningPorts({ instanceId, listed }: ListeningPortsProps) {
  const { ports: texts } = useTexts().instance;
  const found = useQuery(listeningQuery(instanceId)).data ?? [];
  const offered = found.filter(({ port, onLoopback }) => {
    const row = listed.find((one) => one.port === port);
    return row === undefined || (onLoopback && row.access !== 'loopback');
  });
  if (offered.length === 0) return null;
  return (
    <Alert mb="sm" title={texts.listening} variant="light">
      {offered.map(({ port, onLoopback }) => (
        <Group key={port} gap="xs" mb={4} role="group" aria-label={texts.listensOn(port)}>
          <Text size="sm" fw={600}>
            {texts.port(port)}
          </Text>
          {onLoopback ? (
            <OpenLoopback instanceId={instanceId} port={port} />
          ) : (
            <OpenPort instanceId={instanceId} port={port} isRunning />
          )}
        </Group>
      ))}
    </Alert>
  );
}

function OpenLoopback({ instanceId, port }: { instanceId: string; port: number }) {
  const { ports: texts } = useTexts().instance;
  const open = useChange(() => api.setPortAccess({ instanceId, port, access: 'loopback' }));
  return (
    <>
      <Text size="sm">{texts.onLoopback}</Text>
      <Button size="compact-sm" variant="default" loading={open.isPending} onClick={() => open.mutate(undefined)}>
        {texts.loopbackAct(port)}
      </Button>
    </>
  );
}

/** Ports of the instance: where they are reached, who may come in, and links that share them. */
import { Paper, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import { ForwardedPorts, NewPort } from './port-forms.tsx';
import { ListeningPorts } from './listening-ports.tsx';
import { LoopbackOffer } from './loopback-offer.tsx';
import type { TabProps } from './tab-props.ts';
import { PortRow, type ListedPort } from './port-row.tsx';
import { portsQuery } from './queries.ts';
import { ShareModal } from './share-modal.tsx';
import { ShareList } from './share-list.tsx';

const NOTEBOOK = 8888;

export function PortsTab({ view: { instance }, search: { loopback }, change }: TabProps) {
  const { ports: texts } = useTexts().instance;
  const instanceId = idOf(instance);
  const ports = useQuery(portsQuery(instanceId));
  const [added, setAdded] = useState<readonly ListedPort[]>([]);
  const [shared, setShared] = useState<number | null>(null);
  const listed = ports.data ?? [];
  const shown = [...listed, ...added.filter(({ port }) => !listed.some((one) => one.port === port))];
  const isRunning = instance.instanceRuntimeInfo.status === 'Running';
  return (
    <Stack gap="md">
      <Paper withBorder p="md">
        <Title order={2} mb={4}>
          {texts.title}
        </Title>
        <Text size="xs" c="dimmed" mb="sm">
          {texts.hint}
        </Text>
        {loopback !== undefined && (
          <LoopbackOffer instanceId={instanceId} port={loopback} onDone={() => change({ loopback: undefined })} />
        )}
        {isRunning && ports.data !== undefined && <ListeningPorts instanceId={instanceId} listed={shown} />}
        {ports.isPending && <Loading h={80} label={texts.title} />}
        {ports.isError && <Trouble error={ports.error} onRetry={() => void ports.refetch()} />}
        <Stack gap="sm">
          {ports.data !== undefined && shown.length === 0 && <Text size="sm">{texts.none}</Text>}
          {shown.map((port) => (
            <PortRow
              key={port.port}
              port={port}
              isNotebook={port.port === NOTEBOOK}
              instanceId={instanceId}
              isRunning={isRunning}
              onShare={() => setShared(port.port)}
            />
          ))}
          <NewPort instanceId={instanceId} onAdd={(port) => setAdded([...added, port])} />
          <ForwardedPorts instance={instance} />
        </Stack>
      </Paper>
      <ShareList instanceId={instanceId} />
      {shared !== null && <ShareModal instanceId={instanceId} port={shared} onClose={() => setShared(null)} />}
    </Stack>
  );
}

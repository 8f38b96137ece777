/** Ways in: the notebook, ssh, editors, and the ports with who may come in. */
import { Badge, Group, Paper, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { AnchorLink } from '../../parts/links.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from '../instances/allowed-acts.ts';
import { hostEntryOf, sshAddressOf, sshLineOf } from './access.ts';
import { CopyLine } from './copy-line.tsx';
import { OpenPort } from './open-port.tsx';
import { portsQuery, type InstanceView } from './queries.ts';

export function AccessCard({ view: { instance } }: { view: InstanceView }) {
  const { instance: texts } = useTexts();
  const { access } = texts;
  const instanceId = idOf(instance);
  const isRunning = instance.instanceRuntimeInfo.status === 'Running';
  const ports = useQuery(portsQuery(instanceId)).data ?? [];
  const ssh = sshAddressOf(instance);
  return (
    <Paper withBorder p="md">
      <Title order={2} mb="xs">
        {access.title}
      </Title>
      <Stack gap="sm">
        {!isRunning && (
          <Text size="sm" c="dimmed">
            {ssh === null ? access.noSsh : access.notRunning}
          </Text>
        )}
        {ssh !== null && (
          <>
            <CopyLine label={access.ssh} value={sshLineOf(ssh)} />
            <CopyLine label={access.hostEntry} value={hostEntryOf(nameOf(instance), ssh)} />
            <Text size="xs" c="dimmed">
              {access.keysHint}{' '}
              <AnchorLink to="/access" underline="always">
                {access.keys}
              </AnchorLink>
            </Text>
          </>
        )}
        {ports.map((port) => (
          <Group key={port.port} justify="space-between" gap="xs" wrap="nowrap">
            <Group gap="xs">
              <Text size="sm">{access.port(port.port)}</Text>
              <Badge size="xs" variant="default" tt="none">
                {texts.ports.who[port.access]}
              </Badge>
            </Group>
            <OpenPort instanceId={instanceId} port={port.port} isRunning={isRunning} />
          </Group>
        ))}
        <AnchorLink to="/instances/$instanceId" params={{ instanceId }} search={{ tab: 'ports' }} size="sm">
          {access.managePorts}
        </AnchorLink>
      </Stack>
    </Paper>
  );
}

/** Whether something uses the instance, by which signal, and when it stops by itself. */
import { Badge, Button, Group, Paper, Stack, Text, Title, Tooltip } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useFormat } from '../../app/format.ts';
import { useNow } from '../../app/now.ts';
import { AnchorLink } from '../../parts/links.tsx';
import { asSentence } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import { wholeOf } from './headline.ts';
import { useKeep } from './keep.ts';
import { activityQuery, endsQuery, type InstanceView } from './queries.ts';

const colors = { active: 'teal', idle: 'gray', stale: 'yellow' } as const;

export function IdleCard({ view: { instance } }: { view: InstanceView }) {
  const { idle } = useTexts().instance;
  const { moment, duration } = useFormat();
  const nowMs = useNow(10_000);
  const instanceId = idOf(instance);
  const activity = useQuery(activityQuery(instanceId)).data;
  const ends = useQuery(endsQuery(instanceId)).data;
  const keep = useKeep(instanceId);
  const keptUntilMs = ends?.keepAliveUntilUnixMs ?? null;
  return (
    <Paper withBorder p="md">
      <Title order={2} mb="xs">
        {idle.title}
      </Title>
      {activity && (
        <Stack gap="xs">
          <Text size="sm">
            {idle.states[activity.state]}
            {activity.idleSinceUnixMs !== null && ` ${idle.since(duration(wholeOf(nowMs - activity.idleSinceUnixMs)))}`}
          </Text>
          {(activity.state === 'active' || activity.state === 'unknown') && activity.because !== '' && (
            <Text size="xs" c="dimmed" lang="en">
              {asSentence(activity.because)}
            </Text>
          )}
          {activity.willStopAtUnixMs !== null && (
            <Group gap="xs">
              <Text size="sm" fw={600}>
                {idle.willStop(moment(activity.willStopAtUnixMs))}
              </Text>
              <Button variant="light" loading={keep.isPending} onClick={() => keep.mutate('idle')}>
                {idle.veto}
              </Button>
            </Group>
          )}
          {keptUntilMs !== null && keptUntilMs > nowMs && <Text size="sm">{idle.keptUntil(moment(keptUntilMs))}</Text>}
          {activity.signals.length > 0 && (
            <Group gap={6}>
              {activity.signals.map(({ name, says, text }) => (
                <Tooltip key={name} label={text} disabled={text === ''}>
                  <Badge size="sm" variant="dot" color={colors[says]} tt="none" tabIndex={0}>
                    {idle.signals[name]}: {idle.says[says]}
                  </Badge>
                </Tooltip>
              ))}
            </Group>
          )}
          <AnchorLink to="/instances/$instanceId" params={{ instanceId }} search={{ tab: 'settings' }} size="sm">
            {activity.state === 'off' ? idle.set : idle.change}
          </AnchorLink>
        </Stack>
      )}
    </Paper>
  );
}

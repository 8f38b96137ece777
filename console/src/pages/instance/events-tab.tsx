/** Operations of the instance with their stages and failures. */
import { Accordion, Badge, Group, Paper, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useFormat } from '../../app/format.ts';
import { AnchorLink } from '../../parts/links.tsx';
import { Loading } from '../../parts/loading.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import type { TabProps } from './tab-props.ts';
import { operationsQuery, type Operation } from './queries.ts';
import { Timeline } from './timeline.tsx';

const colors = { Pending: 'yellow', Running: 'blue', Succeeded: 'teal', Failed: 'red', Cancelled: 'gray' } as const;

export function EventsTab({ view: { instance } }: TabProps) {
  const { events: texts } = useTexts().instance;
  const instanceId = idOf(instance);
  const operations = useQuery(operationsQuery(instanceId));
  return (
    <Paper withBorder p="md">
      <Group justify="space-between" mb="xs">
        <Title order={2}>{texts.title}</Title>
        <AnchorLink
          to="/instances/$instanceId"
          params={{ instanceId }}
          search={{ tab: 'logs', log: 'events' }}
          size="sm"
        >
          {texts.raw}
        </AnchorLink>
      </Group>
      {operations.isPending && <Loading h={160} label={texts.title} />}
      {operations.isError && <Trouble error={operations.error} onRetry={() => void operations.refetch()} />}
      {operations.data && (
        <Accordion multiple variant="default" defaultValue={operations.data.slice(0, 1).map((one) => one.operationId)}>
          {operations.data.map((operation) => (
            <OperationItem key={operation.operationId} operation={operation} />
          ))}
        </Accordion>
      )}
    </Paper>
  );
}

function OperationItem({ operation }: { operation: Operation }) {
  const { instance, reasons } = useTexts();
  const { events: texts } = instance;
  const { duration } = useFormat();
  const { operationId, kind, cause, reason, state, stages, startedAtUnixMs, endedAtUnixMs, error } = operation;
  return (
    <Accordion.Item value={operationId}>
      <Accordion.Control>
        <Group gap="xs">
          <Text size="sm" fw={600}>
            {texts.kinds[kind]}
          </Text>
          <Badge size="sm" variant="dot" color={colors[state]} tt="none">
            {texts.states[state]}
          </Badge>
          <Text span size="sm" c="dimmed">
            {texts.by(cause)} · <RelativeTime atMs={startedAtUnixMs} />
            {endedAtUnixMs !== null &&
              endedAtUnixMs - startedAtUnixMs >= 1_000 &&
              ` · ${duration(endedAtUnixMs - startedAtUnixMs)}`}
          </Text>
        </Group>
      </Accordion.Control>
      <Accordion.Panel>
        {reason !== '' && (
          <Text size="sm" mb={4}>
            {instance.operatorSays(reason)}
          </Text>
        )}
        {error !== null && (
          <Text size="sm" mb={4} role="note">
            {reasons[error.reason] ?? `${error.message} ${error.whatToDo}`}
          </Text>
        )}
        {stages.length > 0 && <Timeline stages={stages} hasFailed={state === 'Failed'} />}
      </Accordion.Panel>
    </Accordion.Item>
  );
}

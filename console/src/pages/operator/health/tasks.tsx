/** Background tasks of the server whose last run failed; the others on request. */
import { Button, Group, Text, Title } from '@mantine/core';
import { useState } from 'react';
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { useFormat } from '../../../app/format.ts';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import { ShortTable } from '../../../parts/short-table.tsx';
import { StateWord } from '../../../parts/state-word.tsx';
import { useTexts } from '../../../texts/provider.tsx';

type Task = AnswerOf<'listTasks'>['tasks'][number];

export function Tasks({ tasks }: { tasks: readonly Task[] }) {
  const { health, common } = useTexts();
  const { duration, count } = useFormat();
  const [isWhole, setWhole] = useState(false);
  const sorted = tasks.toSorted(
    (one, other) => Number(other.lastError !== null) - Number(one.lastError !== null) || other.failures - one.failures,
  );
  const failed = sorted.filter(({ lastError }) => lastError !== null);
  const rows = isWhole ? sorted : failed;
  return (
    <>
      <Title order={2} mt="lg" mb={4} id="tasks">
        {health.tasks}
      </Title>
      <Group gap="sm" mb="xs">
        <Text size="sm">{health.tasksFailed(failed.length, tasks.length)}</Text>
        <Button variant="default" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? health.onlyFailed : health.allTasks}
        </Button>
      </Group>
      {rows.length > 0 && (
        <ShortTable
          label={health.tasks}
          rows={rows}
          keyOf={({ name }) => name}
          columns={[
            { key: 'name', title: health.columns.task, cell: ({ name }) => name },
            {
              key: 'state',
              title: health.columns.state,
              cell: ({ lastError, running }) =>
                lastError === null ? (
                  <StateWord kind={running ? 'busy' : 'good'} word={running ? health.runs : health.succeeded} />
                ) : (
                  <StateWord kind="bad" word={health.failed} why={lastError} />
                ),
            },
            { key: 'every', title: health.columns.every, cell: ({ intervalMs }) => duration(intervalMs) },
            {
              key: 'last',
              title: health.columns.last,
              cell: ({ lastStartedAt }) =>
                lastStartedAt === null ? common.never : <RelativeTime atMs={lastStartedAt} />,
            },
            {
              key: 'took',
              title: health.columns.took,
              align: 'right',
              cell: ({ lastDurationMs }) => (lastDurationMs === null ? '–' : `${count(lastDurationMs)} ms`),
            },
            {
              key: 'failures',
              title: health.columns.failures,
              align: 'right',
              cell: ({ failures, runs }) => health.failuresOf(count(failures), count(runs)),
            },
          ]}
        />
      )}
    </>
  );
}

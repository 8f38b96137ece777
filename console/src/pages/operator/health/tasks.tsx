/** Background tasks of the server with their last runs. */
import { Title } from '@mantine/core';
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
  const rows = tasks.toSorted(
    (one, other) => Number(other.lastError !== null) - Number(one.lastError !== null) || other.failures - one.failures,
  );
  return (
    <>
      <Title order={2} mt="lg" mb={4} id="tasks">
        {health.tasks}
      </Title>
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
    </>
  );
}

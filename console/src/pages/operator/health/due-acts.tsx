/** Acts that are due at a time, by kind, with those that fail. */
import { Title } from '@mantine/core';
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { useFormat } from '../../../app/format.ts';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import { ShortTable } from '../../../parts/short-table.tsx';
import { StateWord } from '../../../parts/state-word.tsx';
import { useTexts } from '../../../texts/provider.tsx';

type Due = AnswerOf<'listTasks'>['due'][number];

export function DueActs({ due }: { due: readonly Due[] }) {
  const { health } = useTexts();
  const { count } = useFormat();
  return (
    <>
      <Title order={2} mt="lg" mb={4} id="due">
        {health.due}
      </Title>
      <ShortTable
        label={health.due}
        rows={due}
        keyOf={({ kind }) => kind}
        columns={[
          { key: 'kind', title: health.dueColumns.kind, cell: ({ kind }) => kind },
          { key: 'count', title: health.dueColumns.count, align: 'right', cell: (one) => count(one.count) },
          {
            key: 'next',
            title: health.dueColumns.next,
            cell: ({ nextAtMs }) => (nextAtMs === null ? '–' : <RelativeTime atMs={nextAtMs} />),
          },
          {
            key: 'failing',
            title: health.dueColumns.failing,
            cell: ({ failing }) =>
              failing.length === 0 ? (
                <StateWord kind="good" word={health.succeeded} />
              ) : (
                failing.map(({ subjectId, error }) => (
                  <StateWord key={subjectId} kind="bad" word={subjectId} why={error} />
                ))
              ),
          },
        ]}
      />
    </>
  );
}

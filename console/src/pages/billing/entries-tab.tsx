/** The ledger: each movement of money, newest first. */
import { Group, NativeSelect, Text } from '@mantine/core';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { entryKinds } from '../../../../src/contract/money/billing.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { AnchorLink } from '../../parts/links.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { useTexts } from '../../texts/provider.tsx';

type Entry = Awaited<ReturnType<typeof api.listEntries>>['entries'][number];

export function EntriesTab({ kind, onKind }: { kind: string | undefined; onKind: (kind: string | undefined) => void }) {
  const { billing } = useTexts();
  const { money } = useFormat();
  const known = entryKinds.find((one) => one === kind);
  const filters = known === undefined ? {} : { kind: known };
  return (
    <>
      <NativeSelect
        size="xs"
        mb="xs"
        maw={220}
        aria-label={billing.columns.kind}
        value={known ?? ''}
        onChange={({ currentTarget }) => onKind(currentTarget.value)}
        data={[
          { value: '', label: billing.allKinds },
          ...entryKinds.map((value) => ({ value, label: billing.entryName(value) })),
        ]}
      />
      <PagedTable
        label={billing.tabs.entries}
        queryKey={['billing', 'entries', filters]}
        fetchPage={async (pager) => {
          const { entries, pager: found } = await api.listEntries({ pager, ...filters });
          return { rows: entries, total: found.totalEntries };
        }}
        keyOf={({ entryId }) => entryId}
        columns={[
          {
            key: 'time',
            title: billing.columns.time,
            width: '120px',
            cell: ({ atUnixMs }) => <RelativeTime atMs={atUnixMs} />,
          },
          {
            key: 'kind',
            title: billing.columns.kind,
            width: '120px',
            cell: ({ kind: name }) => billing.entryName(name),
          },
          {
            key: 'what',
            title: billing.columns.what,
            width: 'minmax(160px, 2fr)',
            cell: (entry) => <What entry={entry} />,
          },
          {
            key: 'source',
            title: billing.columns.source,
            width: '120px',
            cell: ({ source }) => billing.sourceName(source),
          },
          {
            key: 'amount',
            title: billing.columns.amount,
            width: '110px',
            align: 'right',
            cell: ({ amount }) => money(amount),
          },
        ]}
        cardPx={96}
        card={(entry) => (
          <>
            <Group justify="space-between" wrap="nowrap">
              <Text span size="sm" fw={600}>
                {billing.entryName(entry.kind)}
              </Text>
              <Text span size="sm">
                {money(entry.amount)}
              </Text>
            </Group>
            <What entry={entry} />
            <Text size="xs" c="dimmed">
              <RelativeTime atMs={entry.atUnixMs} /> · {billing.sourceName(entry.source)}
            </Text>
          </>
        )}
        empty={<EmptyState {...billing.noEntries} />}
      />
    </>
  );
}

/** A reason, or the resource whose use was charged, which leads to its periods. */
function What({ entry }: { entry: Entry }) {
  const { billing } = useTexts();
  const subjectId = entry.instanceId ?? entry.volumeId ?? entry.snapshotId;
  if (subjectId === undefined || entry.meter === undefined)
    return (
      <Text size="sm" truncate>
        {entry.reason}
      </Text>
    );
  const month = new Date(entry.fromUnixMs ?? entry.atUnixMs).toISOString().slice(0, 7);
  return (
    <AnchorLink
      to="/billing"
      search={{ month, line: `${subjectId}~${entry.meter}` }}
      size="sm"
      truncate
      display="block"
    >
      {billing.meterName(entry.meter)} · {subjectId}
    </AnchorLink>
  );
}

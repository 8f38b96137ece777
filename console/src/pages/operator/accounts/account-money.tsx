/** Money of an account: by kind, and its ledger, from which a gift is taken back. */
import { Button, Group, Paper, Stack, Text, Title } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { Facts } from '../../../parts/facts.tsx';
import { PagedTable } from '../../../parts/paged-table.tsx';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { Account } from './account.ts';
import { ReverseModal } from './money-modals.tsx';

type Entry = Awaited<ReturnType<typeof api.listAccountEntries>>['entries'][number];

/** Deposits and gifts can be taken back. */
const isGift = ({ kind }: Entry): boolean => kind === 'deposit' || kind === 'grant';

export function AccountMoney({ account }: { account: Account }) {
  const { accounts, billing } = useTexts();
  const { money } = useFormat();
  const [reversed, setReversed] = useState<string>();
  const { username } = account;
  const undo = (entry: Entry) =>
    isGift(entry) && (
      <Button variant="default" onClick={() => setReversed(entry.entryId)}>
        {accounts.reverse}
      </Button>
    );
  const what = ({ reason, meter, instanceId, volumeId, snapshotId }: Entry): string =>
    meter === undefined ? reason : `${billing.meterName(meter)} · ${instanceId ?? volumeId ?? snapshotId ?? ''}`;
  return (
    <Stack gap="sm">
      <Paper withBorder p="md" maw={420}>
        <Facts
          facts={[
            [billing.cash, money(account.balance)],
            [billing.vouchers, money(account.vouchers)],
            [billing.credits, money(account.credits)],
            [billing.overdraft, money(account.overdraft)],
          ]}
        />
      </Paper>
      <Title order={2}>{billing.tabs.entries}</Title>
      <PagedTable
        label={billing.tabs.entries}
        queryKey={['accountMoney', username]}
        fetchPage={async (pager) => {
          const { entries, pager: found } = await api.listAccountEntries({ username, pager });
          return { rows: entries, total: found.totalEntries };
        }}
        keyOf={({ entryId }) => entryId}
        columns={[
          {
            key: 'time',
            title: billing.columns.time,
            width: '110px',
            cell: ({ atUnixMs }) => <RelativeTime atMs={atUnixMs} />,
          },
          { key: 'kind', title: billing.columns.kind, width: '110px', cell: ({ kind }) => billing.entryName(kind) },
          {
            key: 'what',
            title: billing.columns.what,
            width: 'minmax(140px, 2fr)',
            cell: (entry) => (
              <Text span size="sm" truncate display="block">
                {what(entry)}
              </Text>
            ),
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
          { key: 'acts', title: '', width: '110px', align: 'right', cell: undo },
        ]}
        cardPx={112}
        card={(entry) => (
          <Stack gap={4}>
            <Group justify="space-between" wrap="nowrap">
              <Text span size="sm" fw={600}>
                {billing.entryName(entry.kind)} · {money(entry.amount)}
              </Text>
              {undo(entry)}
            </Group>
            <Text size="sm" truncate>
              {what(entry)}
            </Text>
            <Text size="xs" c="dimmed">
              <RelativeTime atMs={entry.atUnixMs} /> · {billing.sourceName(entry.source)}
            </Text>
          </Stack>
        )}
        empty={<EmptyState {...billing.noEntries} />}
      />
      {reversed !== undefined && <ReverseModal entryId={reversed} onClose={() => setReversed(undefined)} />}
    </Stack>
  );
}

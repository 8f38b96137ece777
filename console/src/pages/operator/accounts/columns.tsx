/** Columns of the list of accounts, and the card of a phone. */
import { Group, Stack, Text } from '@mantine/core';
import { useMemo, type ReactNode } from 'react';
import { accountStates } from '../../../../../src/contract/statuses.ts';
import { useFormat } from '../../../app/format.ts';
import { AnchorLink } from '../../../parts/links.tsx';
import type { Column } from '../../../parts/paged-table.tsx';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import type { StateKind } from '../../../parts/state-kind.ts';
import { StateWord } from '../../../parts/state-word.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { roleOf, type Account } from './account.ts';
import { AccountActs } from './account-acts.tsx';

const kinds: Readonly<Record<(typeof accountStates)[number], StateKind>> = {
  active: 'good',
  disabled: 'rests',
  deleting: 'warns',
};

export function AccountState({ account: { state, reason, deleteAtUnixMs } }: { account: Account }) {
  const { accounts } = useTexts();
  const { dateTime } = useFormat();
  const known = accountStates.find((one) => one === state) ?? 'active';
  const why = deleteAtUnixMs === null ? reason : accounts.deletedAt(dateTime(deleteAtUnixMs));
  return <StateWord kind={kinds[known]} word={accounts.states[known]} why={why} />;
}

export function AccountName({
  account: { accountId, username },
}: {
  account: Pick<Account, 'accountId' | 'username'>;
}) {
  return (
    <AnchorLink to="/operator/accounts/$accountId" params={{ accountId }} size="sm" truncate display="block">
      {username}
    </AnchorLink>
  );
}

export const useAccountColumns = (): Column<Account, never>[] => {
  const { accounts } = useTexts();
  const { money, count } = useFormat();
  const { columns } = accounts;
  return useMemo(
    () => [
      { key: 'name', title: columns.name, width: 'minmax(110px, 1.2fr)', cell: (row) => <AccountName account={row} /> },
      {
        key: 'email',
        title: columns.email,
        width: 'minmax(90px, 1.5fr)',
        cell: ({ email }) => (
          <Text span size="sm" c="dimmed" truncate display="block">
            {email}
          </Text>
        ),
      },
      { key: 'role', title: columns.role, width: '90px', cell: ({ role }) => accounts.roles[roleOf(role)] },
      { key: 'state', title: columns.state, width: '104px', cell: (row) => <AccountState account={row} /> },
      { key: 'balance', title: columns.balance, width: '100px', align: 'right', cell: ({ balance }) => money(balance) },
      {
        key: 'gifts',
        title: columns.gifts,
        width: '100px',
        align: 'right',
        cell: ({ vouchers, credits }) => money(vouchers + credits),
      },
      {
        key: 'instances',
        title: columns.instances,
        width: '68px',
        align: 'right',
        cell: ({ instances }) => count(instances),
      },
      { key: 'volumes', title: columns.volumes, width: '68px', align: 'right', cell: ({ volumes }) => count(volumes) },
      {
        key: 'created',
        title: columns.created,
        width: '100px',
        cell: ({ createdAtUnixMs }) => <RelativeTime atMs={createdAtUnixMs} />,
      },
      { key: 'acts', title: '', width: '48px', align: 'right', cell: (row) => <AccountActs account={row} /> },
    ],
    [accounts.roles, columns, money, count],
  );
};

export function AccountCard({ account, acts }: { account: Account; acts: ReactNode }) {
  const { accounts } = useTexts();
  const { money } = useFormat();
  return (
    <Stack gap={4}>
      <Group justify="space-between" wrap="nowrap">
        <AccountName account={account} />
        <Group gap={4} wrap="nowrap">
          <AccountState account={account} />
          {acts}
        </Group>
      </Group>
      <Text size="xs" c="dimmed" truncate>
        {[accounts.roles[roleOf(account.role)], account.email].filter((part) => part !== '').join(' · ')}
      </Text>
      <Text size="sm">
        {money(account.balance)} · {accounts.holds(account.instances, account.volumes)}
      </Text>
    </Stack>
  );
}

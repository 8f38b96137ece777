/** Accounts of the installation: who they are, what they have, and who fills the disks. */
import { Button, Group, NativeSelect, SegmentedControl, Text, Title } from '@mantine/core';
import { IconUserPlus } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { accountStates, roles } from '../../../../../src/contract/statuses.ts';
import { api } from '../../../app/api.ts';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { FilterInput } from '../../../parts/filter-input.tsx';
import { ButtonLink } from '../../../parts/links.tsx';
import { PagedTable } from '../../../parts/paged-table.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { useFresh } from '../fresh.ts';
import { readAccountsSearch, type AccountsSearch } from '../search.ts';
import { AccountActs } from './account-acts.tsx';
import { AccountCard, useAccountColumns } from './columns.tsx';
import { DiskUse } from './disk-use-table.tsx';
import { InviteModal } from './invite-modal.tsx';

const route = getRouteApi('/operator/accounts');

export function AccountsPage() {
  const { accounts, common } = useTexts();
  const { q, role, state, by } = route.useSearch();
  const navigate = route.useNavigate();
  const [isInviting, setInviting] = useState(false);
  const columns = useAccountColumns();
  useFresh('accounts', 'operatorDisks');
  const change = (over: AccountsSearch, replace = true): void =>
    void navigate({ search: (now) => readAccountsSearch({ ...now, ...over }), replace });
  const filters = {
    ...(q === undefined ? {} : { search: q }),
    ...(role === undefined ? {} : { role }),
    ...(state === undefined ? {} : { state }),
  };
  return (
    <>
      <Group mb="sm" gap="sm" justify="space-between">
        <Title order={1}>{accounts.title}</Title>
        <Button leftSection={<IconUserPlus size={14} />} onClick={() => setInviting(true)}>
          {accounts.invite}
        </Button>
      </Group>
      <Group mb="xs" gap="xs">
        <SegmentedControl
          size="xs"
          aria-label={accounts.order}
          value={by ?? 'list'}
          onChange={(value) => change({ by: value === 'disk' ? value : undefined }, false)}
          data={[
            { value: 'list', label: accounts.newest },
            { value: 'disk', label: accounts.byDisk },
          ]}
        />
        {by === undefined && (
          <>
            <FilterInput value={q} label={accounts.search} onChange={(text) => change({ q: text })} />
            <NativeSelect
              size="xs"
              aria-label={accounts.columns.role}
              value={role ?? ''}
              onChange={({ currentTarget }) => change({ role: roles.find((one) => one === currentTarget.value) })}
              data={[
                { value: '', label: accounts.allRoles },
                ...roles.map((value) => ({ value, label: accounts.roles[value] })),
              ]}
            />
            <NativeSelect
              size="xs"
              aria-label={accounts.columns.state}
              value={state ?? ''}
              onChange={({ currentTarget }) =>
                change({ state: accountStates.find((one) => one === currentTarget.value) })
              }
              data={[
                { value: '', label: accounts.allStates },
                ...accountStates.map((value) => ({ value, label: accounts.states[value] })),
              ]}
            />
          </>
        )}
      </Group>
      {by === 'disk' ? (
        <>
          <Text size="sm" c="dimmed" mb="xs">
            {accounts.byDiskHint}
          </Text>
          <DiskUse />
        </>
      ) : (
        <PagedTable
          label={accounts.list}
          queryKey={['accounts', 'list', filters]}
          fetchPage={async (pager) => {
            const answer = await api.listAccounts({ pager, ...filters });
            return { rows: answer.accounts, total: answer.pager.totalEntries };
          }}
          columns={columns}
          keyOf={({ accountId }) => accountId}
          card={(account) => <AccountCard account={account} acts={<AccountActs account={account} />} />}
          cardPx={104}
          empty={
            <EmptyState title={common.nothingMatches} text="">
              <ButtonLink variant="default" to="/operator/accounts" search={{}}>
                {common.clearFilters}
              </ButtonLink>
            </EmptyState>
          }
        />
      )}
      {isInviting && <InviteModal onClose={() => setInviting(false)} />}
    </>
  );
}

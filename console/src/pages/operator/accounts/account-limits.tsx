/** Quotas, budgets, network policy and identities that administrators set for an account. */
import { Stack, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../../app/api.ts';
import { BudgetList } from '../../../parts/budget-list.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { EgressPanel } from '../egress-panel.tsx';
import { QuotaTable } from '../quota-table.tsx';
import { AccountIdentities } from './account-identities.tsx';
import type { Account } from './account.ts';

export function AccountLimits({ account }: { account: Account }) {
  const { accountId, username } = account;
  const { accounts } = useTexts();
  return (
    <Stack gap="md">
      <Title order={2}>{accounts.quotas}</Title>
      <QuotaTable accountId={accountId} />
      <Title order={2}>{accounts.budgets}</Title>
      <Budgets username={username} />
      <Title order={2}>{accounts.egress}</Title>
      <EgressPanel holder={{ account: accountId }} />
      <Title order={2}>{accounts.identities}</Title>
      <AccountIdentities account={account} />
    </Stack>
  );
}

function Budgets({ username }: { username: string }) {
  const { accounts } = useTexts();
  const budgets = useQuery({
    queryKey: ['accountBudgets', username],
    queryFn: async () => (await api.listAccountBudgets({ username })).budgets,
  });
  if (budgets.isError) return <Trouble error={budgets.error} onRetry={() => void budgets.refetch()} />;
  if (budgets.data === undefined) return <Loading h={120} label={accounts.budgets} />;
  return (
    <BudgetList
      budgets={budgets.data}
      editor="administrator"
      labelKeys={[]}
      stale={['accountBudgets']}
      set={(body) => api.setAccountBudget({ username, ...body })}
      remove={(name) => api.deleteAccountBudget({ username, name })}
    />
  );
}

import { useQuery } from '@tanstack/react-query';
import { api } from '../../app/api.ts';
import { BudgetList } from '../../parts/budget-list.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { budgetsQuery, labelKeysQuery } from './queries.ts';

export function OwnBudgets() {
  const { billing } = useTexts();
  const budgets = useQuery(budgetsQuery);
  const labelKeys = useQuery(labelKeysQuery).data ?? [];
  if (budgets.isError) return <Trouble error={budgets.error} onRetry={() => void budgets.refetch()} />;
  if (budgets.data === undefined) return <Loading h={160} label={billing.tabs.budgets} />;
  return (
    <BudgetList
      budgets={budgets.data}
      editor="owner"
      labelKeys={labelKeys}
      stale={['billing']}
      set={(body) => api.setBudget(body)}
      remove={(name) => api.deleteBudget({ name })}
    />
  );
}

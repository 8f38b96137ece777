/** Instances and volumes of an account, the one that wrote most first. */
import { useQuery } from '@tanstack/react-query';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { DiskTable } from '../disk-table.tsx';
import { disksQuery } from '../disk-use.ts';

export function AccountResources({ accountId }: { accountId: string }) {
  const { accounts } = useTexts();
  const disks = useQuery(disksQuery(accountId));
  if (disks.isError) return <Trouble error={disks.error} onRetry={() => void disks.refetch()} />;
  if (disks.data === undefined) return <Loading h={240} label={accounts.tabs.resources} />;
  if (disks.data.length === 0) return <EmptyState {...accounts.noResources} />;
  return <DiskTable items={disks.data} />;
}

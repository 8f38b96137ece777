/** Accounts by what they wrote, with the act that ends it. */
import { Button, Group } from '@mantine/core';
import { IconPlayerStop } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { ButtonLink } from '../../../parts/links.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { ShortTable } from '../../../parts/short-table.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { UsageBar } from '../../../parts/usage-bar.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { ActOnInstances } from '../act-on-instances.tsx';
import { accountsByUse, disksQuery, type AccountDisks } from '../disk-use.ts';
import { AccountName } from './columns.tsx';

const SHOWN = 100;

export function DiskUse() {
  const { accounts, common, operator } = useTexts();
  const disks = useQuery(disksQuery());
  const [stopped, setStopped] = useState<AccountDisks>();
  if (disks.isError) return <Trouble error={disks.error} onRetry={() => void disks.refetch()} />;
  if (disks.data === undefined) return <Loading h={240} label={accounts.byDisk} />;
  const rows = accountsByUse(disks.data).slice(0, SHOWN);
  if (rows.length === 0) return <EmptyState {...accounts.noDisks} />;
  return (
    <>
      <ShortTable
        label={accounts.byDisk}
        rows={rows}
        keyOf={({ accountId }) => accountId}
        columns={[
          { key: 'name', title: accounts.columns.name, cell: (row) => <AccountName account={row} /> },
          {
            key: 'used',
            title: accounts.columns.written,
            cell: ({ usedGB, sizeGB }) => (
              <UsageBar
                used={usedGB}
                limit={sizeGB}
                label={accounts.columns.written}
                text={operator.usedOf(common.gb(usedGB), common.gb(sizeGB))}
              />
            ),
          },
          {
            key: 'largest',
            title: accounts.columns.largest,
            cell: ({ items: [largest] }) => largest && `${largest.name} (${common.gb(largest.usedGB)})`,
          },
          {
            key: 'running',
            title: accounts.columns.running,
            align: 'right',
            cell: ({ stoppable }) => operator.instances(stoppable.length),
          },
          {
            key: 'acts',
            title: '',
            align: 'right',
            cell: (row) => (
              <Group gap={4} justify="flex-end" wrap="nowrap">
                <ButtonLink
                  variant="default"
                  to="/operator/accounts/$accountId"
                  params={{ accountId: row.accountId }}
                  aria-label={accounts.open(row.username)}
                >
                  {accounts.see}
                </ButtonLink>
                <Button
                  variant="default"
                  color="red"
                  leftSection={<IconPlayerStop size={13} />}
                  disabled={row.stoppable.length === 0}
                  title={row.stoppable.length === 0 ? accounts.nothingRuns : undefined}
                  aria-label={accounts.stopAll(row.username)}
                  onClick={() => setStopped(row)}
                >
                  {accounts.stop}
                </Button>
              </Group>
            ),
          },
        ]}
      />
      {stopped && <ActOnInstances act="stop" items={stopped.stoppable} onClose={() => setStopped(undefined)} />}
    </>
  );
}

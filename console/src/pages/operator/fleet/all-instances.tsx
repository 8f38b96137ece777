/** Instances of all accounts, with the acts of an operator. */
import { Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { instanceStatuses } from '../../../../../src/contract/statuses.ts';
import { api } from '../../../app/api.ts';
import { useSession } from '../../../app/session.ts';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { FilterInput } from '../../../parts/filter-input.tsx';
import { AnchorLink, ButtonLink } from '../../../parts/links.tsx';
import { PagedTable } from '../../../parts/paged-table.tsx';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import { StatusMark } from '../../../parts/status-mark.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { ActOnInstances, type OperatorAct } from '../act-on-instances.tsx';
import { InstanceActs } from '../disk-table.tsx';
import { itemOfInstance, type DiskItem } from '../disk-use.ts';
import type { FleetSearch } from '../search.ts';

interface AllInstancesProps {
  search: FleetSearch;
  change: (over: FleetSearch) => void;
}

export function AllInstances({ search: { q, status }, change }: AllInstancesProps) {
  const { fleet, common, instances, statuses, operator } = useTexts();
  const { isAdmin } = useSession();
  const [act, setAct] = useState<{ act: OperatorAct; item: DiskItem }>();
  const filters = {
    ...(q === undefined ? {} : { name: q }),
    ...(status === undefined ? {} : { status: [status] }),
  };
  const owner = ({ accountId, username }: DiskItem) =>
    isAdmin ? (
      <AnchorLink to="/operator/accounts/$accountId" params={{ accountId }} size="sm" truncate display="block">
        {username}
      </AnchorLink>
    ) : (
      username
    );
  const acts = (item: DiskItem) => <InstanceActs item={item} onAct={(one) => setAct({ act: one, item })} />;
  return (
    <>
      <Group mb="xs" gap="xs">
        <FilterInput value={q} onChange={(text) => change({ q: text })} />
        <NativeSelect
          size="xs"
          aria-label={instances.filterStatus}
          value={status ?? ''}
          onChange={({ currentTarget }) =>
            change({ status: instanceStatuses.find((one) => one === currentTarget.value) })
          }
          data={[
            { value: '', label: instances.allStatuses },
            ...instanceStatuses.map((value) => ({ value, label: statuses.instance[value] })),
          ]}
        />
      </Group>
      <PagedTable
        label={fleet.tabs.instances}
        queryKey={['operatorInstances', filters]}
        fetchPage={async (pager) => {
          const answer = await api.listAllInstances({ pager, ...filters });
          return { rows: answer.instances.map(itemOfInstance), total: answer.pager.totalEntries };
        }}
        keyOf={({ id }) => id}
        columns={[
          {
            key: 'status',
            title: operator.columns.status,
            width: '130px',
            cell: ({ instance }) => instance && <StatusMark instance={instance} />,
          },
          { key: 'name', title: operator.columns.name, width: 'minmax(120px, 1.5fr)', cell: ({ name }) => name },
          { key: 'owner', title: fleet.columns.owner, width: 'minmax(100px, 1fr)', cell: owner },
          {
            key: 'type',
            title: fleet.columns.type,
            width: 'minmax(90px, 1fr)',
            cell: ({ instance }) => instance?.instanceSpecInfo.instanceTypeInfo.instanceTypeName,
          },
          {
            key: 'region',
            title: fleet.columns.region,
            width: 'minmax(80px, 0.7fr)',
            cell: ({ instance }) => instance?.instanceSpecInfo.regionInfo.name,
          },
          {
            key: 'since',
            title: instances.columns.since,
            width: '100px',
            cell: ({ instance }) => instance && <RelativeTime atMs={instance.instanceRuntimeInfo.createAtUnixMs} />,
          },
          { key: 'acts', title: '', width: '180px', align: 'right', cell: acts },
        ]}
        cardPx={104}
        card={(item) => (
          <Stack gap={4}>
            <Group justify="space-between" wrap="nowrap">
              <Text span size="sm" fw={600} truncate>
                {item.name}
              </Text>
              {item.instance && <StatusMark instance={item.instance} />}
            </Group>
            {owner(item)}
            {acts(item)}
          </Stack>
        )}
        empty={
          q === undefined && status === undefined ? (
            <EmptyState {...fleet.noInstances} />
          ) : (
            <EmptyState title={common.nothingMatches} text="">
              <ButtonLink variant="default" to="/operator/fleet" search={{ tab: 'instances' }}>
                {common.clearFilters}
              </ButtonLink>
            </EmptyState>
          )
        }
      />
      {act && <ActOnInstances act={act.act} items={[act.item]} onClose={() => setAct(undefined)} />}
    </>
  );
}

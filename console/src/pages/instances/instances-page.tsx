/** Home: what runs, what it costs, what is wrong, and how to get in. */
import { Group, NativeSelect, Pill, Text, Title } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { instanceStatuses } from '../../../../src/contract/statuses.ts';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { forecastQuery } from '../../app/queries.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { FilterInput } from '../../parts/filter-input.tsx';
import { ButtonLink } from '../../parts/links.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from './allowed-acts.ts';
import { InstanceCard } from './instance-card.tsx';
import { useInstanceColumns } from './columns.tsx';
import { instancesOf } from './list.ts';
import { SelectionBar } from './selection-bar.tsx';
import { readInstanceSearch, type InstanceSearch } from './search.ts';

const route = getRouteApi('/instances');
const CARD_PX = 116;

function toggled(selected: ReadonlyMap<string, InstanceObject>, row: InstanceObject): Map<string, InstanceObject> {
  const next = new Map(selected);
  if (!next.delete(idOf(row))) next.set(idOf(row), row);
  return next;
}

export function InstancesPage() {
  const { instances, common, statuses } = useTexts();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [selected, setSelected] = useState<ReadonlyMap<string, InstanceObject>>(new Map());
  const columns = useInstanceColumns();
  const change = (over: InstanceSearch): void =>
    void navigate({ search: (now) => readInstanceSearch({ ...now, ...over }), replace: true });
  const clearLabel = (): void =>
    void navigate({ search: (now) => readInstanceSearch({ ...now, label: undefined }), replace: true });
  const { q, status, label, sort, desc } = search;
  const isFiltered = q !== undefined || status !== undefined || label !== undefined;
  return (
    <>
      <Summary />
      <Group mb="xs" gap="xs">
        <ButtonLink to="/launch" leftSection={<IconPlus size={14} />}>
          {instances.launch}
        </ButtonLink>
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
        {label !== undefined && (
          <Pill
            withRemoveButton
            size="md"
            onRemove={clearLabel}
            removeButtonProps={{ 'aria-label': common.clearFilters }}
          >
            {label}
          </Pill>
        )}
        {selected.size > 0 && <SelectionBar chosen={[...selected.values()]} onDone={() => setSelected(new Map())} />}
      </Group>
      <PagedTable
        label={instances.list}
        {...instancesOf(search)}
        columns={columns}
        cardPx={CARD_PX}
        sort={{ by: sort ?? 'createdAt', isDescending: sort === undefined ? true : desc === true }}
        onSort={({ by, isDescending }) => change({ sort: by, desc: isDescending })}
        keyOf={idOf}
        card={(instance) => <InstanceCard instance={instance} />}
        selection={{
          keys: selected,
          onToggle: (row) => setSelected(toggled(selected, row)),
          onRows: (rows) => {
            const changed = rows.filter((row) => (selected.get(idOf(row)) ?? row) !== row);
            if (changed.length > 0)
              setSelected(new Map([...selected, ...changed.map((row) => [idOf(row), row] as const)]));
          },
          labelOf: (row) => instances.select(nameOf(row)),
        }}
        empty={
          isFiltered ? (
            <EmptyState title={common.nothingMatches} text="">
              <ButtonLink variant="default" to="/instances" search={{}}>
                {common.clearFilters}
              </ButtonLink>
            </EmptyState>
          ) : (
            <EmptyState {...instances.empty}>
              <ButtonLink to="/launch" size="sm">
                {instances.launch}
              </ButtonLink>
            </EmptyState>
          )
        }
      />
    </>
  );
}

function Summary() {
  const { instances } = useTexts();
  const { money, lasting } = useFormat();
  const count = (status: 'Running' | 'Initializing') => ({
    queryKey: ['instances', 'count', status],
    queryFn: async () => (await api.listInstances({ pager: { currentPage: 1, pageSize: 1 }, status: [status] })).pager,
  });
  const running = useQuery(count('Running')).data?.totalEntries;
  const waiting = useQuery(count('Initializing')).data?.totalEntries ?? 0;
  const forecast = useQuery(forecastQuery).data;
  return (
    <Group gap="sm" mb="sm" mih={28}>
      <Title order={1}>{running === undefined ? instances.title : instances.summary(running, waiting)}</Title>
      {forecast !== undefined && forecast.lastsUntilUnixMs !== null && (
        <Text c="dimmed" size="sm">
          {instances.rate(money(forecast.burnRate))} · {instances.lasts(lasting(forecast.lastsUntilUnixMs))}
        </Text>
      )}
    </Group>
  );
}

/** Instance types with prices: new, changed, retired. */
import { Badge, Button, Group, Menu, ActionIcon, Text, Tooltip } from '@mantine/core';
import { IconCalendarDollar, IconDotsVertical } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { chargeModes } from '../../../../../src/contract/statuses.ts';
import { useFormat } from '../../../app/format.ts';
import { useSession } from '../../../app/session.ts';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { MenuLink } from '../../../parts/links.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { ShortTable } from '../../../parts/short-table.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { CatalogSearch } from '../search.ts';
import { ListTools, shownRows } from './list-tools.tsx';
import { PriceModal } from './price-modal.tsx';
import { managedRegionsQuery, scheduledQuery, typesQuery, type ManagedType } from './queries.ts';
import { RetireModal } from './retire-modal.tsx';
import { TypeModal } from './type-modal.tsx';

interface TabProps {
  search: CatalogSearch;
  change: (over: CatalogSearch, replace?: boolean) => void;
}

type Open = { act: 'price' | 'edit' | 'retire'; type: ManagedType } | { act: 'new' };

export function TypesTab({ search, change }: TabProps) {
  const { catalog, common, launch } = useTexts();
  const { money, moment } = useFormat();
  const { isAdmin } = useSession();
  const types = useQuery(typesQuery);
  const regions = useQuery(managedRegionsQuery).data ?? [];
  const scheduled = useQuery(scheduledQuery).data ?? [];
  const [open, setOpen] = useState<Open>();
  if (types.isError) return <Trouble error={types.error} onRetry={() => void types.refetch()} />;
  if (types.data === undefined) return <Loading h={320} label={catalog.tabs.types} />;
  const rows = shownRows(types.data, search);
  const regionName = (id: string): string => regions.find(({ regionId }) => regionId === id)?.name ?? id;
  const isOneRegion = regions.length < 2;
  const nextOf = (type: ManagedType) => scheduled.find(({ instanceTypeId }) => instanceTypeId === type.instanceTypeId);
  return (
    <>
      <ListTools search={search} change={change} add={catalog.newType} onAdd={() => setOpen({ act: 'new' })} />
      {rows.length === 0 ? (
        <EmptyState {...catalog.noTypes} />
      ) : (
        <ShortTable
          label={catalog.tabs.types}
          rows={rows}
          keyOf={({ instanceTypeId }) => instanceTypeId}
          columns={[
            {
              key: 'name',
              title: catalog.columns.name,
              cell: (type) => (
                <Group gap={6}>
                  <Text span size="sm" fw={600}>
                    {type.name}
                  </Text>
                  {type.isSpot && <Badge size="xs">{catalog.spot}</Badge>}
                  {type.retired && (
                    <Badge size="xs" color="gray">
                      {catalog.retired}
                    </Badge>
                  )}
                  {!isOneRegion && (
                    <Text span size="xs" c="dimmed">
                      {regionName(type.regionId)}
                    </Text>
                  )}
                </Group>
              ),
            },
            {
              key: 'size',
              title: catalog.columns.size,
              cell: ({ cpuCores, memoryGB, gpuNum, gpuName }) =>
                [
                  launch.cores(cpuCores),
                  common.gb(memoryGB),
                  ...(gpuNum > 0 ? [`${gpuNum} × ${gpuName === '' ? 'GPU' : gpuName}`] : []),
                ].join(' · '),
            },
            {
              key: 'price',
              title: catalog.columns.perHour,
              align: 'right',
              cell: (type) => {
                const next = nextOf(type);
                return (
                  <Group gap={6} justify="flex-end" wrap="nowrap">
                    {next?.prices && (
                      <Tooltip label={catalog.nextPrice(money(next.prices.perHour), moment(next.fromUnixMs))}>
                        <Badge
                          size="sm"
                          tt="none"
                          variant="light"
                          tabIndex={0}
                          leftSection={<IconCalendarDollar size={11} />}
                        >
                          {money(next.prices.perHour)}
                        </Badge>
                      </Tooltip>
                    )}
                    <Tooltip
                      label={chargeModes
                        .map((mode) => `${launch.modes[mode].name}: ${money(type.prices[mode])}`)
                        .join('\n')}
                    >
                      <Text span size="sm" tabIndex={0}>
                        {money(type.prices.perHour)}
                      </Text>
                    </Tooltip>
                  </Group>
                );
              },
            },
            {
              key: 'acts',
              title: '',
              align: 'right',
              cell: (type) => <TypeActs type={type} isAdmin={isAdmin} onAct={(act) => setOpen({ act, type })} />,
            },
          ]}
        />
      )}
      {open?.act === 'new' && <TypeModal regions={regions} onClose={() => setOpen(undefined)} />}
      {open?.act === 'edit' && <TypeModal regions={regions} type={open.type} onClose={() => setOpen(undefined)} />}
      {open?.act === 'price' && <PriceModal type={open.type} onClose={() => setOpen(undefined)} />}
      {open?.act === 'retire' && (
        <RetireModal
          kind="type"
          row={{ ...open.type, id: open.type.instanceTypeId }}
          onClose={() => setOpen(undefined)}
        />
      )}
    </>
  );
}

interface TypeActsProps {
  type: ManagedType;
  isAdmin: boolean;
  onAct: (act: 'price' | 'edit' | 'retire') => void;
}

function TypeActs({ type: { instanceTypeId, name, retired }, isAdmin, onAct }: TypeActsProps) {
  const { catalog, common } = useTexts();
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      {isAdmin && (
        <Button variant="default" aria-label={catalog.priceOf(name)} onClick={() => onAct('price')}>
          {catalog.price}
        </Button>
      )}
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon aria-label={`${common.more}: ${name}`}>
            <IconDotsVertical size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {isAdmin && <Menu.Item onClick={() => onAct('edit')}>{catalog.edit}</Menu.Item>}
          <MenuLink to="/operator/catalog" search={{ tab: 'prices', type: instanceTypeId }}>
            {catalog.history}
          </MenuLink>
          {isAdmin && (
            <Menu.Item color={retired ? undefined : 'red'} onClick={() => onAct('retire')}>
              {retired ? catalog.offerAgain : catalog.retire}
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
    </Group>
  );
}

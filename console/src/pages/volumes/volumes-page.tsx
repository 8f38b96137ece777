/** Volumes of the account, with how full each is, and the snapshots of all. */
import { Button, Group, Tabs, Text, Title } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { volumesQuery } from '../../app/queries.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { FilterInput } from '../../parts/filter-input.tsx';
import { ButtonLink } from '../../parts/links.tsx';
import { PagedTable } from '../../parts/paged-table.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { AllSnapshots } from './all-snapshots.tsx';
import { useVolumeColumns, VolumeCard } from './columns.tsx';
import { CreateModal } from './create-modal.tsx';
import { readVolumesSearch, sortOf, textOfSort, type VolumesSearch } from './search.ts';

const route = getRouteApi('/volumes');
const CARD_PX = 104;

export function VolumesPage() {
  const { volumes } = useTexts();
  const { tab = 'volumes', create } = route.useSearch();
  const navigate = route.useNavigate();
  const change = (over: VolumesSearch): void =>
    void navigate({ search: (now) => readVolumesSearch({ ...now, ...over }), replace: true });
  return (
    <>
      <Summary />
      <Tabs
        value={tab}
        onChange={(next) => void navigate({ search: readVolumesSearch({ tab: next }) })}
        keepMounted={false}
      >
        <Tabs.List mb="sm">
          <Tabs.Tab value="volumes">{volumes.listTabs.volumes}</Tabs.Tab>
          <Tabs.Tab value="snapshots">{volumes.listTabs.snapshots}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="volumes">
          <VolumeList change={change} />
        </Tabs.Panel>
        <Tabs.Panel value="snapshots">
          <AllSnapshots />
        </Tabs.Panel>
      </Tabs>
      {create && <CreateModal onClose={() => change({ create: undefined })} />}
    </>
  );
}

function VolumeList({ change }: { change: (over: VolumesSearch) => void }) {
  const { volumes, common } = useTexts();
  const { q, sort } = route.useSearch();
  const columns = useVolumeColumns();
  const order = sortOf(sort);
  const filters = {
    ...(q === undefined ? {} : { name: q }),
    ...(order === undefined ? {} : { sort: order }),
  };
  return (
    <>
      <Group mb="xs" gap="xs">
        <Button leftSection={<IconPlus size={14} />} onClick={() => change({ create: true })}>
          {volumes.create}
        </Button>
        <FilterInput value={q} onChange={(text) => change({ q: text })} />
      </Group>
      <PagedTable
        label={volumes.list}
        queryKey={['volumes', 'list', filters]}
        fetchPage={async (pager) => {
          const { volumeList: rows, pager: found } = await api.listVolumes({ pager, ...filters });
          return { rows, total: found.totalEntries };
        }}
        columns={columns}
        keyOf={({ id }) => id}
        card={(volume) => <VolumeCard volume={volume} />}
        cardPx={CARD_PX}
        sort={order && { by: order.by, isDescending: order.order === 'desc' }}
        onSort={({ by, isDescending }) => change({ sort: textOfSort(by, isDescending) })}
        empty={
          q === undefined ? (
            <EmptyState {...volumes.empty}>
              <Button size="sm" onClick={() => change({ create: true })}>
                {volumes.create}
              </Button>
            </EmptyState>
          ) : (
            <EmptyState title={common.nothingMatches} text="">
              <ButtonLink variant="default" to="/volumes" search={{}}>
                {common.clearFilters}
              </ButtonLink>
            </EmptyState>
          )
        }
      />
    </>
  );
}

function Summary() {
  const { volumes } = useTexts();
  const { size } = useFormat();
  const known = useQuery(volumesQuery).data;
  const sum = (of: 'sizeGB' | 'usageGB'): string => size((known ?? []).reduce((all, row) => all + row[of], 0));
  return (
    <Group gap="sm" mb="sm" mih={28}>
      <Title order={1}>{volumes.title}</Title>
      {known !== undefined && known.length > 0 && (
        <Text c="dimmed" size="sm">
          {volumes.summary(volumes.count(known.length), sum('sizeGB'), sum('usageGB'))}
        </Text>
      )}
    </Group>
  );
}

/** Snapshots of all volumes, those of deleted ones too. */
import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { volumesQuery } from '../../app/queries.ts';
import { EmptyState } from '../../parts/empty-state.tsx';
import { AnchorLink } from '../../parts/links.tsx';
import { PagedTable, type Column } from '../../parts/paged-table.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { SnapshotActs, SnapshotStatus } from './snapshots-tab.tsx';
import type { Snapshot } from './volume.ts';

const CARD_PX = 104;

export function AllSnapshots() {
  const { snapshots } = useTexts().volumes;
  const { size } = useFormat();
  const columns: Column<Snapshot, never>[] = [
    {
      key: 'name',
      title: snapshots.columns.name,
      width: 'minmax(150px, 1.4fr)',
      cell: ({ snapshotName }) => (
        <Text size="sm" truncate>
          {snapshotName}
        </Text>
      ),
    },
    {
      key: 'volume',
      title: snapshots.columns.volume,
      width: 'minmax(120px, 1fr)',
      cell: (row) => <VolumeOf snapshot={row} />,
    },
    {
      key: 'status',
      title: snapshots.columns.status,
      width: '130px',
      cell: (row) => <SnapshotStatus snapshot={row} />,
    },
    {
      key: 'taken',
      title: snapshots.columns.taken,
      width: '120px',
      cell: ({ createdAt }) => (
        <Text size="sm">
          <RelativeTime atMs={createdAt} />
        </Text>
      ),
    },
    {
      key: 'size',
      title: snapshots.columns.size,
      width: '80px',
      align: 'right',
      cell: ({ sizeGB }) => <Text size="sm">{size(sizeGB)}</Text>,
    },
    { key: 'act', title: '', width: '160px', align: 'right', cell: (row) => <SnapshotActs snapshot={row} /> },
  ];
  return (
    <PagedTable
      label={snapshots.title}
      queryKey={['snapshots', 'list']}
      fetchPage={async (pager) => {
        const { snapshotList: rows, pager: found } = await api.listSnapshots({ pager });
        return { rows, total: found.totalEntries };
      }}
      columns={columns}
      keyOf={({ id }) => id}
      card={(row) => <Card snapshot={row} />}
      cardPx={CARD_PX}
      empty={<EmptyState title={snapshots.none} text={snapshots.empty} />}
    />
  );
}

function VolumeOf({ snapshot: { volumeId, volumeName } }: { snapshot: Snapshot }) {
  const { snapshots } = useTexts().volumes;
  const volumes = useQuery(volumesQuery).data;
  if (volumes !== undefined && !volumes.some(({ id }) => id === volumeId))
    return (
      <Text size="sm" c="dimmed" truncate>
        {snapshots.ofDeleted(volumeName)}
      </Text>
    );
  return (
    <AnchorLink size="sm" truncate to="/volumes/$volumeId" params={{ volumeId }}>
      {volumeName}
    </AnchorLink>
  );
}

function Card({ snapshot }: { snapshot: Snapshot }) {
  return (
    <Stack gap={6}>
      <Group justify="space-between" wrap="nowrap">
        <Text size="sm" truncate>
          {snapshot.snapshotName}
        </Text>
        <SnapshotStatus snapshot={snapshot} />
      </Group>
      <Group justify="space-between" wrap="nowrap">
        <VolumeOf snapshot={snapshot} />
        <Text span size="xs" c="dimmed">
          <RelativeTime atMs={snapshot.createdAt} />
        </Text>
      </Group>
      <SnapshotActs snapshot={snapshot} />
    </Stack>
  );
}

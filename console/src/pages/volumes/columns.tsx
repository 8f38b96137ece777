import { Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { regionsQuery } from '../../app/queries.ts';
import { AnchorLink } from '../../parts/links.tsx';
import type { Column } from '../../parts/paged-table.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { VolumeSortBy } from './search.ts';
import type { Volume } from './volume.ts';
import { VolumeActs } from './volume-acts.tsx';
import { Labels, VolumeStatus, VolumeUsage } from './volume-facts.tsx';

const SHOWN_LABELS = 3;

function VolumeName({ volume }: { volume: Volume }) {
  return (
    <Group gap={6} wrap="nowrap" miw={0}>
      <AnchorLink to="/volumes/$volumeId" params={{ volumeId: volume.id }} size="sm" truncate>
        {volume.volumeName}
      </AnchorLink>
      <Labels labels={volume.labels} most={SHOWN_LABELS} />
    </Group>
  );
}

export function useVolumeColumns(): Column<Volume, VolumeSortBy>[] {
  const { columns, types } = useTexts().volumes;
  const regions = useQuery(regionsQuery).data;
  return useMemo(
    () => [
      {
        key: 'name',
        title: columns.name,
        sort: 'name',
        width: 'minmax(160px, 2fr)',
        cell: (row) => <VolumeName volume={row} />,
      },
      { key: 'status', title: columns.status, width: '130px', cell: (row) => <VolumeStatus volume={row} /> },
      {
        key: 'usage',
        title: columns.usage,
        sort: 'usage',
        width: 'minmax(170px, 1.2fr)',
        cell: (row) => <VolumeUsage volume={row} />,
      },
      {
        key: 'type',
        title: columns.type,
        width: 'minmax(90px, 0.7fr)',
        cell: (row) => (
          <Text span size="sm" truncate display="block">
            {types(row.volumeType)}
          </Text>
        ),
      },
      ...(regions !== undefined && regions.length > 1
        ? [
            {
              key: 'region',
              title: columns.region,
              width: 'minmax(70px, 0.6fr)',
              cell: (row: Volume) => (
                <Text span size="sm" truncate display="block">
                  {regions.find(({ regionId }) => regionId === row.region)?.name ?? row.region}
                </Text>
              ),
            },
          ]
        : []),
      { key: 'act', title: columns.act, width: '130px', align: 'right', cell: (row) => <VolumeActs volume={row} /> },
    ],
    [columns, types, regions],
  );
}

/** A volume on a phone. */
export function VolumeCard({ volume }: { volume: Volume }) {
  const { volumes } = useTexts();
  return (
    <Stack gap={6}>
      <Group justify="space-between" wrap="nowrap">
        <AnchorLink to="/volumes/$volumeId" params={{ volumeId: volume.id }} size="sm" truncate>
          {volume.volumeName}
        </AnchorLink>
        <VolumeStatus volume={volume} />
      </Group>
      <VolumeUsage volume={volume} />
      <Group justify="space-between" wrap="nowrap">
        <Text span size="xs" c="dimmed" truncate>
          {volumes.types(volume.volumeType)}
        </Text>
        <VolumeActs volume={volume} />
      </Group>
    </Stack>
  );
}

/** What a volume is, who mounts it, and its newest snapshots, each one click from a restore. */
import { Grid, Group, Paper, Stack, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useFormat } from '../../app/format.ts';
import { regionsQuery } from '../../app/queries.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { Facts } from '../../parts/facts.tsx';
import { AnchorLink } from '../../parts/links.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { StatusMark } from '../../parts/status-mark.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from '../instances/allowed-acts.ts';
import { mountingQuery } from './queries.ts';
import { SnapshotList, TakeSnapshot } from './snapshots-tab.tsx';
import { priceOfVolume, type VolumeDetails } from './volume.ts';
import { Labels } from './volume-facts.tsx';

const SHOWN_SNAPSHOTS = 3;

export function OverviewTab({ details }: { details: VolumeDetails }) {
  const { volumes } = useTexts();
  const { snapshots, volume } = details;
  return (
    <Grid gap="md">
      <Grid.Col span={{ base: 12, md: 5 }}>
        <Stack gap="md">
          <Paper withBorder p="md">
            <VolumeFacts details={details} />
          </Paper>
          <Paper withBorder p="md">
            <MountedBy details={details} />
          </Paper>
        </Stack>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <Paper withBorder p="md">
          <Group justify="space-between" mb="xs">
            <Title order={2}>{volumes.snapshots.title}</Title>
            <TakeSnapshot details={details} />
          </Group>
          <SnapshotList details={details} snapshots={snapshots.slice(0, SHOWN_SNAPSHOTS)} />
          {snapshots.length > SHOWN_SNAPSHOTS && (
            <AnchorLink
              size="sm"
              to="/volumes/$volumeId"
              params={{ volumeId: volume.id }}
              search={{ tab: 'snapshots' }}
            >
              {volumes.snapshots.all}
            </AnchorLink>
          )}
        </Paper>
      </Grid.Col>
    </Grid>
  );
}

function VolumeFacts({ details: { volume, pool, sizeLimit, madeFrom, operation } }: { details: VolumeDetails }) {
  const { volumes } = useTexts();
  const { facts, columns } = volumes;
  const { money } = useFormat();
  const region = useQuery(regionsQuery).data?.find(({ regionId }) => regionId === volume.region);
  const price = region && priceOfVolume(region, volume);
  return (
    <Facts
      facts={[
        [columns.type, volumes.types(volume.volumeType)],
        [columns.region, region?.name ?? volume.region],
        ...(price === undefined
          ? []
          : [[facts.price, facts.priceOf(money(price.perHour), money(price.perMonth))] as const]),
        [facts.limit, facts.limits[sizeLimit]],
        [facts.pool, pool],
        ...(madeFrom === null ? [] : [[facts.created, volumes.sources[madeFrom.kind]] as const]),
        [
          facts.labels,
          Object.keys(volume.labels ?? {}).length === 0 ? facts.noLabels : <Labels labels={volume.labels} />,
        ],
        [
          facts.operation,
          <>
            {volumes.operations(operation.kind)} {volumes.operationStates(operation.state)} ·{' '}
            <RelativeTime atMs={operation.endedAtUnixMs ?? operation.startedAtUnixMs} />
          </>,
        ],
        [
          facts.id,
          <Group gap={4} wrap="nowrap">
            <Text span size="xs" ff="monospace">
              {volume.id}
            </Text>
            <CopyButton value={volume.id} />
          </Group>,
        ],
      ]}
    />
  );
}

function MountedBy({ details: { mountedBy } }: { details: VolumeDetails }) {
  const { volumes } = useTexts();
  const mounting = useQuery({ ...mountingQuery(mountedBy), enabled: mountedBy.length > 0 }).data ?? [];
  return (
    <>
      <Title order={2} mb="xs">
        {volumes.mountedBy}
      </Title>
      {mountedBy.length === 0 && (
        <Text size="sm" c="dimmed">
          {volumes.notMounted}
        </Text>
      )}
      {mounting.map((instance) => (
        <Group key={idOf(instance)} justify="space-between" wrap="nowrap" gap="xs" py={2}>
          <AnchorLink to="/instances/$instanceId" params={{ instanceId: idOf(instance) }} size="sm" truncate>
            {nameOf(instance)}
          </AnchorLink>
          <StatusMark instance={instance} />
        </Group>
      ))}
    </>
  );
}

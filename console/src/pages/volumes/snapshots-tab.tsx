/** Snapshots of a volume: taken, restored to a new volume, deleted. */
import { ActionIcon, Button, Group, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconCamera, IconRestore, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { regionsQuery } from '../../app/queries.ts';
import { ConfirmModal } from '../../parts/confirm-modal.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { ShortTable, type ShortColumn } from '../../parts/short-table.tsx';
import { StateWord } from '../../parts/state-word.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { RestoreModal, TakeModal } from './snapshot-modals.tsx';
import { stateOfSnapshot, type Snapshot, type VolumeDetails } from './volume.ts';

export function SnapshotsTab({ details }: { details: VolumeDetails }) {
  return (
    <Stack gap="sm" align="stretch">
      <Group>
        <TakeSnapshot details={details} />
      </Group>
      <SnapshotList details={details} snapshots={details.snapshots} />
    </Stack>
  );
}

/** Why the pool of a volume has no snapshots. */
function useWhyNoCopies({ volume }: VolumeDetails): string | undefined {
  const region = useQuery(regionsQuery).data?.find(({ regionId }) => regionId === volume.region);
  return region?.volumeTypes.find(({ type }) => type === volume.volumeType)?.whyNoCopies;
}

export function TakeSnapshot({ details }: { details: VolumeDetails }) {
  const { volumes } = useTexts();
  const [isTaking, setTaking] = useState(false);
  const { status } = details.volume;
  const whyNot = useWhyNoCopies(details);
  if (whyNot !== undefined) return null;
  return (
    <>
      <Button
        variant="default"
        leftSection={<IconCamera size={14} />}
        disabled={status !== 'Bound'}
        title={status === 'Bound' ? undefined : volumes.notWhile(volumes.statuses(status))}
        onClick={() => setTaking(true)}
      >
        {volumes.snapshots.take}
      </Button>
      {isTaking && <TakeModal details={details} onClose={() => setTaking(false)} />}
    </>
  );
}

interface SnapshotListProps {
  details: VolumeDetails;
  snapshots: readonly Snapshot[];
}

export function SnapshotList({ details, snapshots }: SnapshotListProps) {
  const { volumes } = useTexts();
  const { size } = useFormat();
  const texts = volumes.snapshots;
  const whyNot = useWhyNoCopies(details);
  if (snapshots.length === 0)
    return (
      <Text size="sm" c="dimmed">
        {whyNot === undefined ? texts.empty : texts.cannot(whyNot)}
      </Text>
    );
  const columns: ShortColumn<Snapshot>[] = [
    { key: 'name', title: texts.columns.name, cell: ({ snapshotName }) => snapshotName },
    {
      key: 'status',
      title: texts.columns.status,
      cell: (row) => <SnapshotStatus snapshot={row} />,
    },
    { key: 'taken', title: texts.columns.taken, cell: ({ createdAt }) => <RelativeTime atMs={createdAt} /> },
    { key: 'size', title: texts.columns.size, cell: ({ sizeGB }) => size(sizeGB) },
    { key: 'act', title: '', align: 'right', cell: (row) => <SnapshotActs snapshot={row} /> },
  ];
  return <ShortTable label={texts.title} rows={snapshots} columns={columns} keyOf={({ id }) => id} />;
}

export function SnapshotStatus({ snapshot: { status, reason } }: { snapshot: Snapshot }) {
  const { statuses } = useTexts().volumes.snapshots;
  return <StateWord kind={stateOfSnapshot(status)} word={statuses(status)} why={reason} />;
}

export function SnapshotActs({ snapshot }: { snapshot: Snapshot }) {
  const { volumes, common } = useTexts();
  const texts = volumes.snapshots;
  const [dialog, setDialog] = useState<'restore' | 'delete' | null>(null);
  const { id, snapshotName, status } = snapshot;
  const close = (): void => setDialog(null);
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      <Button
        variant="default"
        leftSection={<IconRestore size={14} />}
        disabled={status !== 'Ready'}
        title={status === 'Ready' ? undefined : texts.statuses(status)}
        aria-label={texts.restoreTitle(snapshotName)}
        onClick={() => setDialog('restore')}
      >
        {texts.restore}
      </Button>
      <ActionIcon
        aria-label={`${common.delete} ${snapshotName}`}
        disabled={status === 'Terminating'}
        onClick={() => setDialog('delete')}
      >
        <IconTrash size={15} />
      </ActionIcon>
      {dialog === 'restore' && <RestoreModal snapshot={snapshot} onClose={close} />}
      {dialog === 'delete' && (
        <ConfirmModal
          title={texts.deleteTitle(snapshotName)}
          loses={[texts.deleteLoses]}
          keeps={texts.deleteKeeps}
          verb={common.delete}
          act={() => api.deleteSnapshot({ id })}
          onDone={() => notifications.show({ message: texts.deleted(snapshotName), color: 'berth' })}
          onClose={close}
        />
      )}
    </Group>
  );
}

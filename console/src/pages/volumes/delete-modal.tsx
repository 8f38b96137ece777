/** Names what the deletion of a volume loses; a mounted one is refused with who mounts it. */
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { ConfirmModal } from '../../parts/confirm-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { nameOf } from '../instances/allowed-acts.ts';
import { mountingQuery, volumeQuery } from './queries.ts';
import type { Volume } from './volume.ts';

interface DeleteModalProps {
  volume: Volume;
  onClose: () => void;
  onGone?: () => void;
}

export function DeleteModal({ volume: { id, volumeName, usageGB }, onClose, onGone }: DeleteModalProps) {
  const { volumes, common } = useTexts();
  const { size } = useFormat();
  const details = useQuery(volumeQuery(id)).data;
  const ids = details?.mountedBy ?? [];
  const mounting = useQuery({ ...mountingQuery(ids), enabled: ids.length > 0 }).data;
  const names = ids.map((one) => mounting?.find(({ instanceMetadata }) => instanceMetadata.instanceId === one) ?? one);
  return (
    <ConfirmModal
      title={volumes.deleteTitle(volumeName)}
      loses={[volumes.deleteLoses(size(usageGB))]}
      keeps={details && volumes.deleteSnapshots(details.snapshots.length)}
      refusal={
        ids.length === 0
          ? undefined
          : volumes.deleteMounted(names.map((one) => (typeof one === 'string' ? one : nameOf(one))).join(', '))
      }
      verb={common.delete}
      act={() => api.deleteVolume({ id })}
      onDone={() => {
        notifications.show({ message: volumes.deleted(volumeName), color: 'berth' });
        onGone?.();
      }}
      onClose={onClose}
    />
  );
}

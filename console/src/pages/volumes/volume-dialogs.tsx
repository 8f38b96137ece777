/** Forms of the acts on a volume. */
import { Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { regionsQuery } from '../../app/queries.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { LabelsModal } from '../../parts/labels-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { SizeField } from './create-modal.tsx';
import { DeleteModal } from './delete-modal.tsx';
import { volumeQuery } from './queries.ts';
import { nameAt, type Volume } from './volume.ts';

export type VolumeDialog = 'rename' | 'expand' | 'copy' | 'labels' | 'delete';

interface DialogProps {
  volume: Volume;
  onClose: () => void;
  /** After a deletion. */
  onGone?: () => void;
}

const tell = (message: string): string => notifications.show({ message, color: 'berth' });

export function VolumeDialogs({ dialog, ...props }: DialogProps & { dialog: VolumeDialog | null }) {
  const queries = useQueryClient();
  switch (dialog) {
    case null:
      return null;
    case 'rename':
      return <RenameModal {...props} />;
    case 'expand':
      return <ExpandModal {...props} />;
    case 'copy':
      return <CopyModal {...props} />;
    case 'labels':
      return (
        <LabelsModal
          name={props.volume.volumeName}
          labels={props.volume.labels}
          save={(labels) => api.labelVolume({ id: props.volume.id, labels })}
          onDone={() => void queries.invalidateQueries({ queryKey: ['volumes'] })}
          onClose={props.onClose}
        />
      );
    case 'delete':
      return <DeleteModal {...props} />;
  }
}

function RenameModal({ volume: { id, volumeName }, onClose }: DialogProps) {
  const { volumes } = useTexts();
  const [name, setName] = useState(volumeName);
  return (
    <FormModal
      title={volumes.renameTitle(volumeName)}
      verb={volumes.acts.rename}
      isReady={name.trim() !== '' && name.trim() !== volumeName}
      act={() => api.renameVolume({ id, name: name.trim() })}
      onClose={onClose}
    >
      <TextInput
        label={volumes.form.name}
        description={volumes.renameHint}
        value={name}
        maxLength={64}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        data-autofocus
      />
    </FormModal>
  );
}

function ExpandModal({ volume, onClose }: DialogProps) {
  const { volumes } = useTexts();
  const { size } = useFormat();
  const { id, volumeName, sizeGB: nowGB, volumeType } = volume;
  const [sizeGB, setSizeGB] = useState<number | string>(nowGB * 2);
  const region = useQuery(regionsQuery).data?.find(({ regionId }) => regionId === volume.region);
  const pool = region?.volumeTypes.find(({ type }) => type === volumeType);
  return (
    <FormModal
      title={volumes.expandTitle(volumeName)}
      verb={volumes.acts.expand}
      isReady={Number(sizeGB) > nowGB}
      act={() => api.expandVolume({ id, sizeGB: Number(sizeGB) })}
      onDone={() => tell(volumes.expanded(volumeName))}
      onClose={onClose}
    >
      <Text size="sm">{volumes.form.grows(size(nowGB))}</Text>
      <SizeField
        label={volumes.form.newSize}
        value={sizeGB}
        min={nowGB}
        onChange={setSizeGB}
        {...{ region, volumeType, freeGB: pool?.freeGB }}
      />
    </FormModal>
  );
}

function CopyModal({ volume: { id, volumeName }, onClose }: DialogProps) {
  const { volumes } = useTexts();
  const [name, setName] = useState(() => nameAt(volumeName, new Date()));
  const copies = useQuery(volumeQuery(id)).data?.copies;
  return (
    <FormModal
      title={volumes.copyTitle(volumeName)}
      verb={volumes.acts.copy}
      isReady={name.trim() !== ''}
      act={() => api.copyVolume({ id, name: name.trim() })}
      onDone={({ volume }) => tell(volumes.copied(volume.volumeName))}
      onClose={onClose}
    >
      <TextInput
        label={volumes.snapshots.newName}
        value={name}
        maxLength={64}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        data-autofocus
      />
      <Text size="sm" c="dimmed">
        {volumes.copyHint} {copies !== undefined && volumes[copies]}
      </Text>
    </FormModal>
  );
}

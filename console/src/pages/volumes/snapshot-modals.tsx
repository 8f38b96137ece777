/** Forms that take a snapshot and that restore one, with names that are free. */
import { Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { volumesQuery } from '../../app/queries.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { freeName, nameAt, type Snapshot, type VolumeDetails } from './volume.ts';

interface TakeModalProps {
  details: VolumeDetails;
  onClose: () => void;
}

export function TakeModal({ details: { volume, copies }, onClose }: TakeModalProps) {
  const { volumes } = useTexts();
  const texts = volumes.snapshots;
  const [name, setName] = useState(() => nameAt(volume.volumeName, new Date()));
  return (
    <FormModal
      title={texts.takeTitle(volume.volumeName)}
      verb={texts.take}
      isReady={name.trim() !== ''}
      act={() => api.createSnapshot({ volumeId: volume.id, name: name.trim() })}
      onDone={({ snapshot }) => notifications.show({ message: texts.taken(snapshot.snapshotName), color: 'berth' })}
      onClose={onClose}
    >
      <TextInput
        label={texts.name}
        value={name}
        maxLength={64}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        data-autofocus
      />
      <Text size="sm" c="dimmed">
        {volumes[copies]}
      </Text>
    </FormModal>
  );
}

interface RestoreModalProps {
  snapshot: Snapshot;
  onClose: () => void;
}

export function RestoreModal({ snapshot, onClose }: RestoreModalProps) {
  const { volumes } = useTexts();
  const texts = volumes.snapshots;
  const navigate = useNavigate();
  const known = useQuery(volumesQuery).data ?? [];
  const [typed, setTyped] = useState<string>();
  const name =
    typed ??
    freeName(
      `${snapshot.volumeName}-restored`,
      known.map(({ volumeName }) => volumeName),
    );
  return (
    <FormModal
      title={texts.restoreTitle(snapshot.snapshotName)}
      verb={texts.restore}
      isReady={name.trim() !== ''}
      act={() => api.restoreSnapshot({ id: snapshot.id, name: name.trim() })}
      onDone={({ volume: made }) => {
        notifications.show({ message: texts.restored(made.volumeName), color: 'berth' });
        void navigate({ to: '/volumes/$volumeId', params: { volumeId: made.id } });
      }}
      onClose={onClose}
    >
      <Text size="sm">{texts.restoreHint(snapshot.volumeName)}</Text>
      <TextInput
        label={texts.newName}
        value={name}
        maxLength={64}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        data-autofocus
      />
    </FormModal>
  );
}

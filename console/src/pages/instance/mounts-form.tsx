/** Volumes of the instance: which are mounted where, from its next start on. */
import { ActionIcon, Badge, Button, Group, NativeSelect, Paper, Stack, Text, TextInput, Title } from '@mantine/core';
import { IconX } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { volumesQuery } from '../../app/queries.ts';
import { AnchorLink } from '../../parts/links.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf } from '../instances/allowed-acts.ts';
import { freePath } from '../launch/draft.ts';
import type { InstanceView } from './queries.ts';
import { useAppliesAt, useChange } from './use-change.ts';

export function MountsForm({ view: { instance } }: { view: InstanceView }) {
  const { instance: texts, common } = useTexts();
  const { storage } = texts;
  const volumes = useQuery(volumesQuery).data ?? [];
  const { remoteStorages: mounted, regionInfo } = instance.instanceSpecInfo;
  const coming = instance.pendingChanges?.remoteStorages ?? null;
  const [draft, setDraft] = useState<typeof mounted | null>(null);
  const shown = draft ?? coming ?? mounted;
  const free = volumes.filter(
    ({ id, region }) => region === regionInfo.regionId && !shown.some(({ remoteStorageId }) => remoteStorageId === id),
  );
  const appliesAt = useAppliesAt();
  const save = useChange(
    (remoteStorages: typeof mounted) => api.updateInstance({ instanceId: idOf(instance), remoteStorages }),
    appliesAt,
  );
  const mount = (id: string): void => {
    const volume = volumes.find((one) => one.id === id);
    if (volume === undefined) return;
    const taken = shown.map(({ remoteStorageId, mountPath }) => ({ id: remoteStorageId, path: mountPath }));
    const added = {
      mountPath: freePath(volume.volumeName, taken),
      remoteStorageName: volume.volumeName,
      remoteStorageId: id,
      type: volume.volumeType,
    };
    setDraft([...shown, added]);
  };
  const isNow = (id: string): boolean => mounted.some(({ remoteStorageId }) => remoteStorageId === id);
  return (
    <Paper withBorder p="md">
      <Title order={2} mb={4}>
        {storage.mounts}
      </Title>
      <Text size="xs" c="dimmed" mb="xs">
        {storage.mountsHint}
      </Text>
      <Stack gap="xs">
        {shown.length === 0 && <Text size="sm">{storage.noMounts}</Text>}
        {shown.map((mount) => (
          <Group key={mount.remoteStorageId} gap="xs" wrap="nowrap">
            <AnchorLink to="/volumes/$volumeId" params={{ volumeId: mount.remoteStorageId }} size="sm" w={110} truncate>
              {mount.remoteStorageName}
            </AnchorLink>
            <TextInput
              size="xs"
              flex={1}
              miw={0}
              aria-label={storage.mountPath(mount.remoteStorageName)}
              value={mount.mountPath}
              onChange={({ currentTarget: { value } }) =>
                setDraft(
                  shown.map((other) =>
                    other.remoteStorageId === mount.remoteStorageId ? { ...other, mountPath: value } : other,
                  ),
                )
              }
            />
            {!isNow(mount.remoteStorageId) && (
              <Badge size="xs" variant="light" color="yellow" tt="none">
                {storage.atNextStart}
              </Badge>
            )}
            <ActionIcon
              aria-label={storage.unmount(mount.remoteStorageName)}
              onClick={() => setDraft(shown.filter(({ remoteStorageId }) => remoteStorageId !== mount.remoteStorageId))}
            >
              <IconX size={14} />
            </ActionIcon>
          </Group>
        ))}
        {coming !== null &&
          mounted
            .filter(({ remoteStorageId }) => !shown.some((one) => one.remoteStorageId === remoteStorageId))
            .map(({ remoteStorageId, remoteStorageName }) => (
              <Text key={remoteStorageId} size="xs" c="dimmed">
                {storage.unmounts(remoteStorageName)}
              </Text>
            ))}
        <Group gap="xs">
          {free.length > 0 && (
            <NativeSelect
              size="xs"
              aria-label={storage.mount}
              value=""
              onChange={({ currentTarget }) => mount(currentTarget.value)}
              data={[
                { value: '', label: storage.mount, disabled: true },
                ...free.map(({ id, volumeName }) => ({ value: id, label: volumeName })),
              ]}
            />
          )}
          {draft !== null && (
            <>
              <Button loading={save.isPending} onClick={() => save.mutate(draft, { onSuccess: () => setDraft(null) })}>
                {common.save}
              </Button>
              <Button variant="default" onClick={() => setDraft(null)}>
                {common.cancel}
              </Button>
            </>
          )}
        </Group>
      </Stack>
    </Paper>
  );
}

/** Volumes to mount, created in place where there is none yet. */
import {
  ActionIcon,
  Button,
  Group,
  NativeSelect,
  NumberInput,
  Stack,
  Switch,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { volumesQuery } from '../../app/queries.ts';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { BlockProps } from './block.ts';
import { freePath } from './draft.ts';

export function StorageBlock({ draft, known, change }: BlockProps) {
  const { launch } = useTexts();
  const [isCreating, setCreating] = useState(false);
  const { mounts, offer, commonData } = draft;
  const here = known.volumes.filter(({ region }) => region === offer.regionId);
  const free = here.filter(({ id }) => !mounts.some((mount) => mount.id === id));
  const volumeOf = (id: string) => known.volumes.find((one) => one.id === id);
  const nameOf = (id: string): string => volumeOf(id)?.volumeName ?? id;
  return (
    <Stack gap="sm">
      <Title order={2}>{launch.storage}</Title>
      <Text size="xs" c="dimmed">
        {launch.storageHint}
      </Text>
      {mounts.map((mount) => (
        <Group key={mount.id} gap="xs" wrap="nowrap">
          <Text size="sm" w={160} truncate>
            {nameOf(mount.id)}
          </Text>
          <TextInput
            size="xs"
            flex={1}
            maw={320}
            aria-label={launch.mountPath(nameOf(mount.id))}
            value={mount.path}
            error={volumeOf(mount.id) === undefined && launch.noSuchVolume}
            onChange={({ currentTarget }) =>
              change({
                mounts: mounts.map((one) => (one.id === mount.id ? { ...one, path: currentTarget.value } : one)),
              })
            }
          />
          <ActionIcon
            aria-label={launch.unmount(nameOf(mount.id))}
            onClick={() => change({ mounts: mounts.filter(({ id }) => id !== mount.id) })}
          >
            <IconX size={14} />
          </ActionIcon>
        </Group>
      ))}
      <Group gap="xs">
        {free.length > 0 && (
          <NativeSelect
            size="xs"
            aria-label={launch.mount}
            value=""
            onChange={({ currentTarget: { value } }) =>
              change({ mounts: [...mounts, { id: value, path: freePath(nameOf(value), mounts) }] })
            }
            data={[
              { value: '', label: launch.mount, disabled: true },
              ...free.map(({ id, volumeName }) => ({ value: id, label: volumeName })),
            ]}
          />
        )}
        {!isCreating && (
          <Button variant="default" leftSection={<IconPlus size={13} />} onClick={() => setCreating(true)}>
            {launch.newVolume}
          </Button>
        )}
      </Group>
      {isCreating && (
        <NewVolume
          regionId={offer.regionId}
          onCancel={() => setCreating(false)}
          onCreated={({ id, volumeName }) => {
            setCreating(false);
            change({ mounts: [...mounts, { id, path: freePath(volumeName, mounts) }] });
          }}
        />
      )}
      <Switch
        label={launch.commonData}
        description={launch.commonDataHint}
        checked={commonData}
        onChange={({ currentTarget }) => change({ commonData: currentTarget.checked })}
      />
    </Stack>
  );
}

interface NewVolumeProps {
  regionId: string;
  onCancel: () => void;
  onCreated: (volume: { id: string; volumeName: string }) => void;
}

const FIRST_SIZE_GB = 10;

function NewVolume({ regionId, onCancel, onCreated }: NewVolumeProps) {
  const { launch, common } = useTexts();
  const queries = useQueryClient();
  const [name, setName] = useState('data');
  const [sizeGB, setSizeGB] = useState<number | string>(FIRST_SIZE_GB);
  const create = useMutation({
    mutationFn: () =>
      api.createVolume({ name: name.trim(), sizeGB: Number(sizeGB), region: regionId, volumeType: 'filesystem' }),
    onSuccess: async ({ volume }) => {
      await queries.invalidateQueries({ queryKey: volumesQuery.queryKey });
      onCreated(volume);
    },
  });
  return (
    <Stack gap="xs">
      <Group gap="xs" align="flex-end">
        <TextInput
          size="xs"
          label={launch.volumeName}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
          data-autofocus
        />
        <NumberInput
          size="xs"
          label={launch.volumeSize}
          value={sizeGB}
          min={1}
          allowDecimal={false}
          suffix=" GB"
          w={110}
          onChange={setSizeGB}
        />
        <Button loading={create.isPending} onClick={() => create.mutate()}>
          {launch.createVolume}
        </Button>
        <Button variant="default" onClick={onCancel}>
          {common.cancel}
        </Button>
      </Group>
      {create.isError && <Trouble error={create.error} />}
    </Stack>
  );
}

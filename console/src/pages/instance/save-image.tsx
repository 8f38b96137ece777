/** Keeps the root disk as an image for launches, and shows how far the saving is. */
import { Button, Group, Paper, Progress, Stack, Text, TextInput, Title } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { imagesQuery } from '../../app/queries.ts';
import { ButtonLink } from '../../parts/links.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from '../instances/allowed-acts.ts';
import type { InstanceView } from './queries.ts';

/** The amount saved comes without events. */
const PROGRESS_MS = 1_000;
const possible: readonly string[] = ['Running', 'Stopped'];

export function SaveImage({ view: { instance } }: { view: InstanceView }) {
  const texts = useTexts();
  const { storage } = texts.instance;
  const queries = useQueryClient();
  const [name, setName] = useState(`${nameOf(instance)} image`);
  const save = useMutation({
    mutationFn: () => api.saveImage({ instanceId: idOf(instance), name: name.trim() }),
    onSuccess: () => queries.invalidateQueries({ queryKey: imagesQuery.queryKey }),
  });
  const { status } = instance.instanceRuntimeInfo;
  const isPossible = possible.includes(status);
  return (
    <Paper withBorder p="md">
      <Title order={2} mb={4}>
        {storage.saveImage}
      </Title>
      <Text size="xs" c="dimmed" mb="xs">
        {storage.saveImageHint}
      </Text>
      <Stack gap="xs">
        <Group gap="xs" align="flex-end">
          <TextInput
            size="xs"
            flex={1}
            maw={320}
            label={storage.imageName}
            maxLength={128}
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
          />
          <Button
            variant="default"
            disabled={!isPossible || name.trim() === ''}
            loading={save.isPending}
            onClick={() => save.mutate()}
          >
            {storage.saveAct}
          </Button>
        </Group>
        {!isPossible && (
          <Text size="xs" c="dimmed">
            {texts.instances.notNow(texts.statuses.instance[status])}
          </Text>
        )}
        {save.isError && <Trouble error={save.error} />}
        {save.data && <Saving imageId={save.data.imageId} />}
      </Stack>
    </Paper>
  );
}

function Saving({ imageId }: { imageId: string }) {
  const { storage } = useTexts().instance;
  const image = useQuery({
    ...imagesQuery,
    refetchInterval: ({ state: { data } }) =>
      data?.images.find((one) => one.imageId === imageId)?.state === 'Saving' ? PROGRESS_MS : false,
  }).data?.find((one) => one.imageId === imageId);
  if (image === undefined) return null;
  if (image.state === 'Failed')
    return (
      <Text size="sm" c="red" role="alert">
        {storage.saveFailed(image.stateText)}
      </Text>
    );
  if (image.state === 'Saving')
    return (
      <div role="status">
        <Text size="sm" mb={2}>
          {storage.saving(image.name)} {image.stateText}
        </Text>
        <Progress
          size="sm"
          value={image.progressPercent || 100}
          animated={image.progressPercent === 0}
          aria-label={storage.saving(image.name)}
        />
      </div>
    );
  return (
    <Group gap="xs" role="status">
      <Text size="sm">{storage.savedImage(image.name)}</Text>
      <ButtonLink variant="light" to="/launch" search={{ imageId }}>
        {storage.launchImage}
      </ButtonLink>
    </Group>
  );
}

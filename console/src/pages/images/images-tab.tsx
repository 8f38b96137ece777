import { Badge, Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { imagesQuery } from '../../app/queries.ts';
import { DeleteButton } from '../../parts/delete-button.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { ImageFacts } from '../../parts/image-facts.tsx';
import { ButtonLink } from '../../parts/links.tsx';
import type { ShortColumn } from '../../parts/short-table.tsx';
import { TabList } from '../../parts/tab-list.tsx';
import { useOneAct } from '../../parts/use-one-act.ts';
import { useTexts } from '../../texts/provider.tsx';
import { ImageState, type Image } from './image-state.tsx';
import { progressingImagesQuery } from './queries.ts';

export interface ImageTabProps {
  isCreating: boolean;
  onCreating: (isCreating: boolean) => void;
}

const isOwn = ({ isPublic }: Image): boolean => isPublic !== 'true';

export function ImagesTab({ isCreating, onCreating }: ImageTabProps) {
  const { images } = useTexts();
  const { bytes } = useFormat();
  const columns: ShortColumn<Image>[] = [
    {
      key: 'name',
      title: images.columns.name,
      cell: ({ name, tags }) => (
        <Stack gap={2}>
          <span>{name}</span>
          {tags !== null && tags.length > 0 && (
            <Group gap={4}>
              {tags.map((tag) => (
                <Badge key={tag} size="xs" variant="default" tt="none">
                  {tag}
                </Badge>
              ))}
            </Group>
          )}
        </Stack>
      ),
    },
    { key: 'state', title: images.columns.state, cell: (row) => <ImageState image={row} /> },
    {
      key: 'origin',
      title: images.columns.origin,
      cell: (row) => (
        <Stack gap={2}>
          <Origin image={row} />
          <ImageFacts image={row} />
        </Stack>
      ),
    },
    {
      key: 'size',
      title: images.columns.size,
      align: 'right',
      cell: ({ sizeBytes }) => (sizeBytes > 0 ? bytes(sizeBytes) : '–'),
    },
    { key: 'act', title: '', align: 'right', cell: (row) => <ImageActs image={row} /> },
  ];
  return (
    <>
      <TabList
        label={images.list}
        hint={images.hint}
        add={images.add}
        onAdd={() => onCreating(true)}
        query={useQuery(progressingImagesQuery)}
        columns={columns}
        keyOf={({ imageId }) => imageId}
        empty={images.empty}
      />
      {isCreating && <AddModal onClose={() => onCreating(false)} />}
    </>
  );
}

function Origin({ image }: { image: Image }) {
  const { origins } = useTexts().images;
  if (!isOwn(image)) return origins.operator;
  if (image.ref === '') return origins.saved;
  return (
    <Text span size="xs" ff="monospace">
      {image.ref}
    </Text>
  );
}

function ImageActs({ image }: { image: Image }) {
  const { images } = useTexts();
  const { imageId, name, ref, state } = image;
  const refresh = useOneAct({
    act: () => api.refreshImage({ imageId }),
    said: () => images.refreshing(name),
    stale: imagesQuery.queryKey,
  });
  const isUsable = state !== 'Failed' && state !== 'Saving';
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      {isUsable ? (
        <ButtonLink variant="default" to="/launch" search={{ imageId }}>
          {images.launch}
        </ButtonLink>
      ) : (
        <Button variant="default" disabled title={images.states[state]}>
          {images.launch}
        </Button>
      )}
      {isOwn(image) && ref !== '' && (
        <Button variant="default" loading={refresh.isPending} onClick={() => refresh.mutate()}>
          {images.refresh}
        </Button>
      )}
      {isOwn(image) && (
        <DeleteButton
          name={name}
          title={images.deleteTitle(name)}
          loses={ref === '' ? images.deleteSaved : images.deleteRef}
          keeps={images.deleteKeeps}
          act={() => api.deleteImage({ imageId })}
          onDone={() => notifications.show({ message: images.deleted(name), color: 'berth' })}
        />
      )}
    </Group>
  );
}

/** `docker.io/library/python:3.13` is called `python:3.13`. */
const nameOfRef = (ref: string): string => ref.slice(ref.lastIndexOf('/') + 1).slice(0, 128);

function AddModal({ onClose }: { onClose: () => void }) {
  const { images } = useTexts();
  const { form } = images;
  const [ref, setRef] = useState('');
  const [typed, setTyped] = useState<string>();
  const name = typed ?? nameOfRef(ref.trim());
  return (
    <FormModal
      title={images.add}
      verb={images.add}
      isReady={ref.trim() !== '' && name.trim() !== ''}
      act={() => api.createImage({ name: name.trim(), ref: ref.trim() })}
      onDone={() => notifications.show({ message: images.added(name.trim()), color: 'berth' })}
      onClose={onClose}
    >
      <TextInput
        label={form.ref}
        description={form.refHint}
        placeholder="docker.io/library/python:3.13"
        value={ref}
        maxLength={500}
        spellCheck={false}
        onChange={({ currentTarget }) => setRef(currentTarget.value)}
        data-autofocus
      />
      <TextInput
        label={form.name}
        value={name}
        maxLength={128}
        onChange={({ currentTarget }) => setTyped(currentTarget.value)}
      />
    </FormModal>
  );
}

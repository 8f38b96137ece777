/** Images that the operator offers to all accounts. */
import { Badge, Button, Code, Group, TagsInput, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { useSession } from '../../../app/session.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { ShortTable } from '../../../parts/short-table.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useOneAct } from '../../../parts/use-one-act.ts';
import { useTexts } from '../../../texts/provider.tsx';
import type { CatalogSearch } from '../search.ts';
import { ListTools, shownRows } from './list-tools.tsx';
import { CATALOG_STALE, managedImagesQuery, type ManagedImage } from './queries.ts';
import { RetireModal } from './retire-modal.tsx';

interface TabProps {
  search: CatalogSearch;
  change: (over: CatalogSearch) => void;
}

export function ImagesTab({ search, change }: TabProps) {
  const { catalog } = useTexts();
  const { isAdmin } = useSession();
  const images = useQuery(managedImagesQuery);
  const [edited, setEdited] = useState<ManagedImage | 'new'>();
  const [retiring, setRetiring] = useState<ManagedImage>();
  if (images.isError) return <Trouble error={images.error} onRetry={() => void images.refetch()} />;
  if (images.data === undefined) return <Loading h={240} label={catalog.tabs.images} />;
  const rows = shownRows(images.data, search);
  return (
    <>
      <ListTools search={search} change={change} add={catalog.newImage} onAdd={() => setEdited('new')} />
      {rows.length === 0 ? (
        <EmptyState {...catalog.noImages} />
      ) : (
        <ShortTable
          label={catalog.tabs.images}
          rows={rows}
          keyOf={({ imageId }) => imageId}
          columns={[
            {
              key: 'name',
              title: catalog.columns.name,
              cell: (image) => (
                <Group gap={6}>
                  <Text span size="sm" fw={600}>
                    {image.name}
                  </Text>
                  {image.retired && (
                    <Badge size="xs" color="gray">
                      {catalog.retired}
                    </Badge>
                  )}
                </Group>
              ),
            },
            { key: 'ref', title: catalog.columns.ref, cell: ({ ref }) => <Code>{ref}</Code> },
            { key: 'tags', title: catalog.columns.tags, cell: ({ tags }) => tags.join(', ') },
            {
              key: 'acts',
              title: '',
              align: 'right',
              cell: (image) =>
                isAdmin && (
                  <Group gap={4} justify="flex-end" wrap="nowrap">
                    <RefreshButton image={image} />
                    <Button
                      variant="default"
                      aria-label={catalog.editTitle(image.name)}
                      onClick={() => setEdited(image)}
                    >
                      {catalog.edit}
                    </Button>
                    <Button
                      variant="subtle"
                      color={image.retired ? undefined : 'red'}
                      aria-label={`${image.retired ? catalog.offerAgain : catalog.retire} ${image.name}`}
                      onClick={() => setRetiring(image)}
                    >
                      {image.retired ? catalog.offerAgain : catalog.retire}
                    </Button>
                  </Group>
                ),
            },
          ]}
        />
      )}
      {edited && <ImageModal image={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />}
      {retiring && (
        <RetireModal kind="image" row={{ ...retiring, id: retiring.imageId }} onClose={() => setRetiring(undefined)} />
      )}
    </>
  );
}

function RefreshButton({ image: { imageId, name } }: { image: ManagedImage }) {
  const { images } = useTexts();
  const refresh = useOneAct({
    act: () => api.refreshCatalogImage({ imageId }),
    said: () => images.refreshing(name),
  });
  return (
    <Button
      variant="default"
      aria-label={`${images.refresh} ${name}`}
      loading={refresh.isPending}
      onClick={() => refresh.mutate()}
    >
      {images.refresh}
    </Button>
  );
}

function ImageModal({ image, onClose }: { image: ManagedImage | undefined; onClose: () => void }) {
  const { catalog, common } = useTexts();
  const [name, setName] = useState(image?.name ?? '');
  const [ref, setRef] = useState(image?.ref ?? '');
  const [tags, setTags] = useState<string[]>(image?.tags ?? []);
  const fields = { name: name.trim(), ref: ref.trim(), tags };
  return (
    <ActModal
      title={image === undefined ? catalog.newImage : catalog.editTitle(image.name)}
      label={image === undefined ? catalog.create : common.save}
      isReady={fields.name !== '' && fields.ref !== ''}
      stale={CATALOG_STALE}
      onClose={onClose}
      act={() =>
        image === undefined
          ? api.createCatalogImage(fields)
          : api.updateCatalogImage({ imageId: image.imageId, version: image.version, ...fields })
      }
    >
      <TextInput
        data-autofocus
        label={catalog.columns.name}
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
      />
      <TextInput
        label={catalog.columns.ref}
        description={catalog.refHint}
        value={ref}
        onChange={({ currentTarget }) => setRef(currentTarget.value)}
      />
      <TagsInput label={catalog.columns.tags} value={tags} onChange={setTags} />
      <Text size="xs" c="dimmed">
        {catalog.imageHint}
      </Text>
    </ActModal>
  );
}

/** Files of a volume, folder by folder; the address holds the folder. */
import { ActionIcon, Box, Breadcrumbs, Button, FileButton, Group, Stack, Text } from '@mantine/core';
import { IconFolderPlus, IconRefresh, IconUpload } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useRef, useState, type DragEvent } from 'react';
import { AnchorLink } from '../../../parts/links.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { Volume } from '../volume.ts';
import { filesOfDrop } from './dropped.ts';
import { FileList } from './file-list.tsx';
import classes from './files.module.css';
import { NewFolderModal } from './new-folder-modal.tsx';
import { crumbsOf, visible, type Crumb } from './paths.ts';
import { filesKey, startUpload } from './upload-state.ts';
import { UploadPanel } from './upload-panel.tsx';
import type { UploadFile } from './uploads.ts';

const route = getRouteApi('/volumes/$volumeId');
const hasFiles = ({ dataTransfer }: DragEvent): boolean => dataTransfer.types.includes('Files');

export function FilesTab({ volume }: { volume: Volume }) {
  const { files, volumes } = useTexts();
  const { path = '' } = route.useSearch();
  const queries = useQueryClient();
  const [isOver, setOver] = useState(false);
  const [isNaming, setNaming] = useState(false);
  const reset = useRef<() => void>(null);
  const upload = useMutation({ mutationFn: (chosen: UploadFile[]) => startUpload(volume.id, path, chosen) });
  if (volume.status !== 'Bound')
    return (
      <Text size="sm" c="dimmed" role="status">
        {files.notReady(volumes.statuses(volume.status))}
      </Text>
    );
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    void filesOfDrop(event.dataTransfer).then((dropped) => upload.mutate(dropped));
  };
  return (
    <Stack
      gap="sm"
      className={classes.zone}
      data-over={isOver || undefined}
      onDragOver={(event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={({ currentTarget, relatedTarget }) => {
        if (!(relatedTarget instanceof Node) || !currentTarget.contains(relatedTarget)) setOver(false);
      }}
      onDrop={onDrop}
    >
      <Group justify="space-between" gap="xs">
        <Crumbs volume={volume} path={path} />
        <Group gap={4}>
          <FileButton
            multiple
            resetRef={reset}
            onChange={(chosen) => {
              upload.mutate(chosen.map((file) => ({ path: file.name, file })));
              // The same file can be chosen again.
              reset.current?.();
            }}
          >
            {(props) => (
              <Button {...props} leftSection={<IconUpload size={14} />}>
                {files.upload}
              </Button>
            )}
          </FileButton>
          <Button variant="default" leftSection={<IconFolderPlus size={14} />} onClick={() => setNaming(true)}>
            {files.newFolder}
          </Button>
          <ActionIcon
            size="md"
            aria-label={files.reload}
            title={files.reload}
            onClick={() => void queries.invalidateQueries({ queryKey: filesKey(volume.id) })}
          >
            <IconRefresh size={16} />
          </ActionIcon>
        </Group>
      </Group>
      {upload.isError && <Trouble error={upload.error} />}
      <UploadPanel volumeId={volume.id} />
      <FileList volume={volume} path={path} />
      {isOver && (
        <Box className={classes.drop} aria-hidden>
          <Text fw={600}>{files.drop}</Text>
        </Box>
      )}
      {isNaming && <NewFolderModal volumeId={volume.id} path={path} onClose={() => setNaming(false)} />}
    </Stack>
  );
}

function Crumbs({ volume, path }: { volume: Volume; path: string }) {
  const { files } = useTexts();
  const top: Crumb = { name: volume.volumeName, path: '' };
  return (
    <Breadcrumbs separatorMargin={4} className={classes.crumbs} aria-label={files.list(path || files.top)}>
      {[top, ...crumbsOf(path)].map((crumb) =>
        crumb.path === path ? (
          <Text key={crumb.path} span size="sm" fw={600} aria-current="page">
            <bdi>{visible(crumb.name)}</bdi>
          </Text>
        ) : (
          <AnchorLink
            key={crumb.path}
            size="sm"
            to="/volumes/$volumeId"
            params={{ volumeId: volume.id }}
            search={{ tab: 'files', path: crumb.path || undefined }}
          >
            <bdi>{visible(crumb.name)}</bdi>
          </AnchorLink>
        ),
      )}
    </Breadcrumbs>
  );
}

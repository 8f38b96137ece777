/** A folder, page by page. */
import { ActionIcon, Anchor, Button, Group, Menu, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import {
  IconDotsVertical,
  IconDownload,
  IconFile,
  IconFolder,
  IconLink,
  IconPlug,
  IconTrash,
} from '@tabler/icons-react';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { api } from '../../../app/api.ts';
import { useFormat } from '../../../app/format.ts';
import { ConfirmModal } from '../../../parts/confirm-modal.tsx';
import { CopyItem } from '../../../parts/copy-item.tsx';
import { EmptyState } from '../../../parts/empty-state.tsx';
import { AnchorLink } from '../../../parts/links.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { RelativeTime } from '../../../parts/relative-time.tsx';
import { ShortTable, type ShortColumn } from '../../../parts/short-table.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import type { Volume } from '../volume.ts';
import classes from './files.module.css';
import { joined, visible } from './paths.ts';
import { addressOfFile } from './send-file.ts';
import { filesKey } from './upload-state.ts';

type FileEntry = AnswerOf<'listFiles'>['files'][number];

const PAGE = 200;
const icons = { file: IconFile, folder: IconFolder, link: IconLink, other: IconPlug } as const;

interface FolderProps {
  volume: Volume;
  path: string;
}

export function FileList({ volume, path }: FolderProps) {
  const { files } = useTexts();
  const { bytes } = useFormat();
  const folder = useInfiniteQuery({
    queryKey: [...filesKey(volume.id), path],
    queryFn: ({ pageParam }) =>
      api.listFiles({ id: volume.id, path, limit: PAGE, ...(pageParam === null ? {} : { after: pageParam }) }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    // Instances write without events.
    refetchOnMount: 'always',
  });
  const label = files.list(path || volume.volumeName);
  if (folder.isError) return <Trouble error={folder.error} onRetry={() => void folder.refetch()} />;
  if (folder.data === undefined) return <Loading label={label} />;
  const entries = folder.data.pages.flatMap((page) => page.files);
  if (entries.length === 0) return <EmptyState {...files.empty} />;
  const columns: ShortColumn<FileEntry>[] = [
    {
      key: 'name',
      title: files.columns.name,
      cell: (entry) => <FileName volume={volume} path={path} entry={entry} />,
    },
    {
      key: 'size',
      title: files.columns.size,
      align: 'right',
      width: 110,
      cell: ({ kind, sizeBytes }) => (kind === 'file' ? bytes(sizeBytes) : '–'),
    },
    {
      key: 'modified',
      title: files.columns.modified,
      width: 150,
      cell: ({ modifiedAtUnixMs }) => <RelativeTime atMs={modifiedAtUnixMs} />,
    },
    {
      key: 'act',
      title: '',
      align: 'right',
      width: 50,
      cell: (entry) => <FileActs volume={volume} path={path} entry={entry} />,
    },
  ];
  return (
    <Stack gap="xs">
      <ShortTable
        label={label}
        rows={entries}
        columns={columns}
        keyOf={({ name }) => name}
        line={({ kind, sizeBytes, modifiedAtUnixMs }) => (
          <>
            {kind === 'file' && `${bytes(sizeBytes)} · `}
            <RelativeTime atMs={modifiedAtUnixMs} />
          </>
        )}
      />
      <Group gap="sm">
        <Text size="xs" c="dimmed">
          {folder.hasNextPage ? files.showing(entries.length) : files.all(entries.length)}
        </Text>
        {folder.hasNextPage && (
          <Button variant="default" loading={folder.isFetchingNextPage} onClick={() => void folder.fetchNextPage()}>
            {files.more(PAGE)}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

interface EntryProps extends FolderProps {
  entry: FileEntry;
}

function FileName({ volume, path, entry: { name, kind, reachable } }: EntryProps) {
  const { files } = useTexts();
  const Icon = icons[kind];
  const whole = joined(path, name);
  const shown = <bdi>{visible(name)}</bdi>;
  return (
    <span className={classes.name}>
      <Icon size={16} stroke={1.6} role="img" aria-label={files.kinds[kind]} />
      {!reachable ? (
        <Text span size="sm" title={files.unreachable}>
          {shown} · {files.unreachable}
        </Text>
      ) : kind === 'folder' ? (
        <AnchorLink
          size="sm"
          to="/volumes/$volumeId"
          params={{ volumeId: volume.id }}
          search={{ tab: 'files', path: whole }}
          preload={false}
        >
          {shown}
        </AnchorLink>
      ) : kind === 'file' ? (
        <Anchor size="sm" href={addressOfFile(volume.id, whole)} download={name}>
          {shown}
        </Anchor>
      ) : (
        <Text span size="sm">
          {shown}
        </Text>
      )}
    </span>
  );
}

function FileActs({ volume, path, entry: { name, kind, sizeBytes, reachable } }: EntryProps) {
  const { files, common } = useTexts();
  const { bytes } = useFormat();
  const queries = useQueryClient();
  const [isDeleting, setDeleting] = useState(false);
  if (!reachable) return null;
  const whole = joined(path, name);
  const loses =
    kind === 'folder'
      ? files.deleteFolder(visible(name))
      : kind === 'link'
        ? files.deleteLink(visible(name))
        : files.deleteFile(visible(name), bytes(sizeBytes));
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon size="sm" aria-label={`${common.more}: ${visible(name)}`}>
            <IconDotsVertical size={15} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {kind === 'file' && (
            <Menu.Item
              component="a"
              href={addressOfFile(volume.id, whole)}
              download={name}
              leftSection={<IconDownload size={14} />}
            >
              {files.download}
            </Menu.Item>
          )}
          <CopyItem label={files.copyPath} value={() => whole} />
          <Menu.Divider />
          <Menu.Item color="red" leftSection={<IconTrash size={14} />} onClick={() => setDeleting(true)}>
            {common.delete}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {isDeleting && (
        <ConfirmModal
          title={files.deleteTitle(name)}
          loses={[loses]}
          keeps={files.deleteKeeps}
          verb={common.delete}
          act={() => api.deleteFile(volume.id, whole, { recursive: kind === 'folder' })}
          onDone={() => {
            notifications.show({ message: files.deleted(name), color: 'berth' });
            void queries.invalidateQueries({ queryKey: filesKey(volume.id) });
          }}
          onClose={() => setDeleting(false)}
        />
      )}
    </>
  );
}

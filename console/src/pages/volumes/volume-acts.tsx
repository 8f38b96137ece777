/** Menu of a volume. What its state forbids is disabled, with the state. */
import { ActionIcon, Group, Menu } from '@mantine/core';
import {
  IconArrowsDiagonal,
  IconCamera,
  IconCopy,
  IconDotsVertical,
  IconFolder,
  IconPencil,
  IconRocket,
  IconTag,
  IconTrash,
} from '@tabler/icons-react';
import { useState } from 'react';
import { ButtonLink, MenuLink } from '../../parts/links.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { freePath } from '../launch/draft.ts';
import type { Volume } from './volume.ts';
import { VolumeDialogs, type VolumeDialog } from './volume-dialogs.tsx';

const items = [
  ['rename', IconPencil],
  ['expand', IconArrowsDiagonal],
  ['copy', IconCopy],
  ['labels', IconTag],
] as const;

/** Names and labels are ours; all else needs the disk. */
const needsDisk = (dialog: VolumeDialog): boolean => dialog === 'expand' || dialog === 'copy';

export const launchWith = ({ id, volumeName }: Volume) => ({ mounts: [{ id, path: freePath(volumeName, []) }] });

interface VolumeActsProps {
  volume: Volume;
  onGone?: () => void;
  /** On the page of the volume, whose tabs lead to files and snapshots. */
  isOnPage?: boolean;
}

export function VolumeActs({ volume, onGone, isOnPage = false }: VolumeActsProps) {
  const { volumes, common } = useTexts();
  const { acts, notWhile } = volumes;
  const [dialog, setDialog] = useState<VolumeDialog | null>(null);
  const isReady = volume.status === 'Bound';
  const why = notWhile(volumes.statuses(volume.status));
  const params = { volumeId: volume.id };
  return (
    <Group gap={4} justify="flex-end" wrap="nowrap">
      {isOnPage ? (
        isReady && (
          <ButtonLink variant="default" leftSection={<IconRocket size={14} />} to="/launch" search={launchWith(volume)}>
            {acts.launch}
          </ButtonLink>
        )
      ) : (
        <ButtonLink
          variant="default"
          leftSection={<IconFolder size={14} />}
          to="/volumes/$volumeId"
          params={params}
          search={{ tab: 'files' }}
        >
          {acts.files}
        </ButtonLink>
      )}
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon aria-label={`${common.more}: ${volume.volumeName}`}>
            <IconDotsVertical size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {!isOnPage && (
            <>
              <MenuLink
                leftSection={<IconCamera size={14} />}
                to="/volumes/$volumeId"
                params={params}
                search={{ tab: 'snapshots' }}
              >
                {acts.snapshots}
              </MenuLink>
              {isReady && (
                <MenuLink leftSection={<IconRocket size={14} />} to="/launch" search={launchWith(volume)}>
                  {acts.launch}
                </MenuLink>
              )}
              <Menu.Divider />
            </>
          )}
          {items.map(([name, Icon]) => {
            const isPossible = isReady || !needsDisk(name);
            return (
              <Menu.Item
                key={name}
                leftSection={<Icon size={14} />}
                disabled={!isPossible}
                title={isPossible ? undefined : why}
                onClick={() => setDialog(name)}
              >
                {acts[name]}
              </Menu.Item>
            );
          })}
          <Menu.Divider />
          <Menu.Item
            color="red"
            leftSection={<IconTrash size={14} />}
            disabled={volume.status === 'Terminating'}
            title={volume.status === 'Terminating' ? why : undefined}
            onClick={() => setDialog('delete')}
          >
            {acts.delete}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <VolumeDialogs dialog={dialog} volume={volume} onClose={() => setDialog(null)} onGone={onGone} />
    </Group>
  );
}

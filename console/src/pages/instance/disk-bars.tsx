/** Disks with what they hold; a disk that gets full says so, and names its largest folders. */
import { Group, Progress, Stack, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { AnchorLink } from '../../parts/links.tsx';
import { useTexts } from '../../texts/provider.tsx';
import classes from './instance.module.css';
import type { Disk, InstanceView } from './queries.ts';

const WARN_PERCENT = 80;
const FULL_PERCENT = 95;

export function DiskBars({ view: { disks, instance } }: { view: InstanceView }) {
  const mounts = instance.instanceSpecInfo.remoteStorages;
  return (
    <Stack gap="sm">
      {disks.map((disk) => (
        <DiskBar
          key={`${disk.disk} ${disk.mountPath}`}
          disk={disk}
          volumeName={mounts.find(({ remoteStorageId }) => remoteStorageId === disk.id)?.remoteStorageName}
        />
      ))}
    </Stack>
  );
}

function DiskBar({ disk, volumeName }: { disk: Disk; volumeName: string | undefined }) {
  const { instance, common } = useTexts();
  const { disks: texts } = instance;
  const { percent, usageGB, sizeGB, mountPath, sizeLimit, biggest } = disk;
  const isWarned = percent >= WARN_PERCENT;
  const name = texts.kinds[disk.disk];
  const amount = texts.amount(common.gb(usageGB), common.gb(sizeGB), percent);
  return (
    <div>
      <Group justify="space-between" gap="xs" wrap="nowrap">
        <Text size="sm" truncate>
          {name}
          {volumeName !== undefined && (
            <>
              {' '}
              <AnchorLink to="/volumes/$volumeId" params={{ volumeId: disk.id }} size="sm">
                {volumeName}
              </AnchorLink>
            </>
          )}{' '}
          <Text span size="xs" c="dimmed" ff="monospace">
            {mountPath}
          </Text>
        </Text>
        <Text size="sm" className={classes.amount}>
          {amount}
        </Text>
      </Group>
      <Progress
        size="sm"
        mt={3}
        value={Math.min(100, percent)}
        color={percent >= FULL_PERCENT ? 'red' : isWarned ? 'orange' : 'berth'}
        aria-label={`${name} ${mountPath}: ${amount}`}
      />
      {isWarned && (
        <Group gap={6} mt={3} wrap="nowrap" align="flex-start">
          <IconAlertTriangle size={14} color="var(--mantine-color-orange-7)" aria-hidden />
          <Text size="xs">
            {sizeLimit === 'hard' ? texts.nearlyFullHard : texts.nearlyFullSoft}
            {biggest.length > 0 &&
              ` ${texts.largest(biggest.map(({ path, usageGB: size }) => `${path} (${common.gb(size)})`).join(', '))}`}
          </Text>
        </Group>
      )}
    </div>
  );
}

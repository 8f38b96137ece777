/** Cells that the list and the page of a volume share. */
import { Badge, Group } from '@mantine/core';
import { useFormat } from '../../app/format.ts';
import { StateWord } from '../../parts/state-word.tsx';
import { UsageBar } from '../../parts/usage-bar.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { stateOfVolume, type Volume } from './volume.ts';

export function VolumeStatus({ volume, why }: { volume: Pick<Volume, 'status'>; why?: string }) {
  const { volumes } = useTexts();
  return <StateWord kind={stateOfVolume(volume.status)} word={volumes.statuses(volume.status)} why={why} />;
}

export function VolumeUsage({ volume: { volumeName, usageGB, sizeGB } }: { volume: Volume }) {
  const { volumes } = useTexts();
  const { size } = useFormat();
  return (
    <UsageBar
      used={usageGB}
      limit={sizeGB}
      label={volumes.usageOf(volumeName)}
      text={volumes.usage(size(usageGB), size(sizeGB))}
    />
  );
}

export function Labels({ labels, most = Infinity }: { labels: Record<string, string> | undefined; most?: number }) {
  return (
    <Group gap={4} wrap={most === Infinity ? 'wrap' : 'nowrap'}>
      {Object.entries(labels ?? {})
        .slice(0, most)
        .map(([key, value]) => (
          <Badge key={key} size="xs" variant="default" tt="none">
            {value === '' ? key : `${key}=${value}`}
          </Badge>
        ))}
    </Group>
  );
}

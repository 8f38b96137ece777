/** A resource as a bar: used, promised beyond that, and free. */
import { Group, Progress, Text } from '@mantine/core';

interface CapacityBarProps {
  name: string;
  total: number;
  promised: number;
  /** Null: not measured. */
  used: number | null;
  /** The amounts in words. */
  text: string;
  usedText?: string;
}

const shareOf = (amount: number, total: number): number =>
  total <= 0 ? 0 : Math.min(100, Math.max(0, (amount / total) * 100));
const NEAR = 90;

export function CapacityBar({ name, total, promised, used, text, usedText }: CapacityBarProps) {
  const promisedShare = shareOf(promised, total);
  const usedShare = used === null ? 0 : Math.min(promisedShare, shareOf(used, total));
  return (
    <div>
      <Group justify="space-between" gap="xs">
        <Text size="sm">{name}</Text>
        <Text size="xs" c="dimmed">
          {usedText === undefined ? text : `${text} · ${usedText}`}
        </Text>
      </Group>
      <Progress.Root size={10} mt={2}>
        <Progress.Section
          value={Math.round(usedShare)}
          color={promisedShare >= NEAR ? 'orange' : 'berth'}
          aria-label={`${name}: ${usedText ?? text}`}
        />
        <Progress.Section
          value={Math.round(promisedShare) - Math.round(usedShare)}
          color={promisedShare >= NEAR ? 'orange.3' : 'berth.3'}
          aria-label={`${name}: ${text}`}
        />
      </Progress.Root>
    </div>
  );
}

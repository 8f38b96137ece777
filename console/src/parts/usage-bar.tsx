/** How much of a limit is used: a bar, and the amounts in words. */
import { Group, Progress, Text } from '@mantine/core';
import { shareOf } from './share.ts';

/** Shares from which the bar warns. */
const NEAR = 0.8;
const FULL = 0.95;

interface UsageBarProps {
  used: number;
  /** 0 or less: nothing is allowed. */
  limit: number;
  /** What is measured, for screen readers. */
  label: string;
  /** The amounts in words. */
  text: string;
  /** Aligns the bars of several rows, in pixels. */
  textWidth?: number;
}

export function UsageBar({ used, limit, label, text, textWidth }: UsageBarProps) {
  const share = shareOf(used, limit);
  const color = share >= FULL ? 'red' : share >= NEAR ? 'orange' : 'berth';
  return (
    <Group gap={8} wrap="nowrap" miw={0}>
      <Progress.Root size={6} flex={1} miw={40} maw={textWidth === undefined ? 180 : undefined}>
        <Progress.Section value={Math.round(share * 100)} color={color} aria-label={`${label}: ${text}`} />
      </Progress.Root>
      <Text
        span
        size="xs"
        w={textWidth}
        style={{ flex: 'none' }}
        c={share >= NEAR ? undefined : 'dimmed'}
        fw={share >= NEAR ? 600 : undefined}
      >
        {text}
      </Text>
    </Group>
  );
}

import { Tooltip } from '@mantine/core';
import { useFormat } from '../app/format.ts';
import { useNow } from '../app/now.ts';

/** How long ago, with the time itself on hover. */
export function RelativeTime({ atMs }: { atMs: number }) {
  const { ago, dateTime } = useFormat();
  const nowMs = useNow(10_000);
  return (
    <Tooltip label={dateTime(atMs)}>
      <time dateTime={new Date(atMs).toISOString()}>{ago(atMs, Math.max(nowMs, atMs))}</time>
    </Tooltip>
  );
}

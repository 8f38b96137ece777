import { useFormat } from '../app/format.ts';
import { useNow } from '../app/now.ts';

interface RelativeTimeProps {
  atMs: number;
  /** A time to come. Without it a time in the future, by the server's clock, is now. */
  isFuture?: boolean;
}

/** How long ago, with the time itself on hover. */
export function RelativeTime({ atMs, isFuture = false }: RelativeTimeProps) {
  const { ago, dateTime } = useFormat();
  const nowMs = useNow(10_000);
  return (
    // Thousands of them scroll by: a tooltip of the browser costs nothing.
    <time dateTime={new Date(atMs).toISOString()} title={dateTime(atMs)}>
      {ago(atMs, isFuture ? nowMs : Math.max(nowMs, atMs))}
    </time>
  );
}

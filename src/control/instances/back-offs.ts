/**
 * Delays the next attempt after a failure, whatever wakes the row: the engine hints at every failed
 * start, and would use up all attempts within a second. A new generation starts at once.
 */
import type { Time } from '../base/time.ts';
import type { BackOff } from './reconcile-context.ts';

interface Row {
  id: string;
  generation: number;
}

export interface BackOffs {
  begin(row: Row, backOff: BackOff): void;
  leftMs(row: Row): number;
}

export function makeBackOffs({ elapsed }: Pick<Time, 'elapsed'>): BackOffs {
  const byId = new Map<string, { generation: number; untilMs: number }>();
  return {
    begin({ id, generation }, { backOffMs }) {
      byId.set(id, { generation, untilMs: elapsed() + backOffMs });
    },
    leftMs({ id, generation }) {
      const backOff = byId.get(id);
      if (!backOff) return 0;
      const leftMs = backOff.generation === generation ? backOff.untilMs - elapsed() : 0;
      if (leftMs <= 0) byId.delete(id);
      return Math.max(0, leftMs);
    },
  };
}

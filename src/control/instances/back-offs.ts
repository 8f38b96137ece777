/**
 * Tries that failed are repeated when their back-off is over, and not before, whatever wakes the row: the engine hints at each container
 * that it was made to start in vain, and would use up all tries within a second of its own trouble. A new wish does not wait.
 */
import type { Time } from '../base/time.ts';
import type { BackOff } from './reconcile-context.ts';

interface Row {
  id: string;
  generation: number;
}

export interface BackOffs {
  begin(row: Row, backOff: BackOff): void;
  /** Milliseconds until this wish may be tried again; 0: now. */
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

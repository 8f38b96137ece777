import type { Forwarding, TrafficKind } from './gateway-types.ts';

interface Counted {
  open: number;
  /** Monotonic; -Infinity: none. */
  lastMs: number;
}

export interface Traffic extends Pick<Forwarding, 'beginTraffic'> {
  of(instanceId: string, kinds: readonly TrafficKind[]): Counted;
  forget(quietMs: number): void;
  readonly size: number;
}

export function makeTraffic(elapsed: () => number): Traffic {
  const counted = { use: new Map<string, Counted>(), poll: new Map<string, Counted>() };
  return {
    beginTraffic(instanceId, kind) {
      const counter = counted[kind].get(instanceId) ?? { open: 0, lastMs: -Infinity };
      counted[kind].set(instanceId, counter);
      counter.open += 1;
      counter.lastMs = elapsed();
      return () => {
        counter.open -= 1;
        counter.lastMs = elapsed();
      };
    },
    of(instanceId, kinds) {
      const each = kinds.map((kind) => counted[kind].get(instanceId) ?? { open: 0, lastMs: -Infinity });
      return {
        open: each.reduce((sum, { open }) => sum + open, 0),
        lastMs: Math.max(...each.map(({ lastMs }) => lastMs)),
      };
    },
    forget(quietMs) {
      const beforeMs = elapsed() - quietMs;
      for (const kind of [counted.use, counted.poll])
        for (const [id, { open, lastMs }] of kind) if (open === 0 && lastMs < beforeMs) kind.delete(id);
    },
    get size() {
      return counted.use.size + counted.poll.size;
    },
  };
}

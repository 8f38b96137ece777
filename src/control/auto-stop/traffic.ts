import type { Forwarding, TrafficKind } from '../routing/gateway-types.ts';

interface Counted {
  open: number;
  lastMs: number;
}

export interface Traffic extends Pick<Forwarding, 'beginTraffic'> {
  of(instanceId: string, kinds: readonly TrafficKind[]): Counted;
  forget(quietMs: number): void;
}

export function makeTraffic(now: () => number): Traffic {
  const counted = { use: new Map<string, Counted>(), poll: new Map<string, Counted>() };
  return {
    beginTraffic(instanceId, kind) {
      const counter = counted[kind].get(instanceId) ?? { open: 0, lastMs: 0 };
      counted[kind].set(instanceId, counter);
      counter.open += 1;
      counter.lastMs = now();
      return () => {
        counter.open -= 1;
        counter.lastMs = now();
      };
    },
    of(instanceId, kinds) {
      const each = kinds.map((kind) => counted[kind].get(instanceId) ?? { open: 0, lastMs: 0 });
      return {
        open: each.reduce((sum, { open }) => sum + open, 0),
        lastMs: Math.max(...each.map(({ lastMs }) => lastMs)),
      };
    },
    forget(quietMs) {
      const beforeMs = now() - quietMs;
      for (const kind of [counted.use, counted.poll])
        for (const [id, { open, lastMs }] of kind) if (open === 0 && lastMs < beforeMs) kind.delete(id);
    },
  };
}

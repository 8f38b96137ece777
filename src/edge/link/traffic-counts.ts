import type { Forwarding } from '../../control/index.ts';
import type { TrafficReport } from './wire.ts';

export interface TrafficCounts {
  update(report: TrafficReport): void;
  end(): void;
}

export function makeTrafficCounts(began: Forwarding['beginTraffic']): TrafficCounts {
  const open = new Map<string, (() => void)[]>();
  return {
    update(report) {
      for (const { instanceId, kind, open: wanted, began: begun } of report) {
        const key = `${kind} ${instanceId}`;
        const endCallbacks = open.get(key) ?? [];
        // Connections begun and ended between two reports count as use.
        if (begun > 0 && endCallbacks.length >= wanted) began(instanceId, kind)();
        while (endCallbacks.length < wanted) endCallbacks.push(began(instanceId, kind));
        while (endCallbacks.length > wanted) endCallbacks.pop()?.();
        if (wanted === 0) open.delete(key);
        else open.set(key, endCallbacks);
      }
    },
    end() {
      for (const dones of open.values()) for (const done of dones) done();
      open.clear();
    },
  };
}

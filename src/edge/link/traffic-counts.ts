import type { Forwarding } from '../../control/index.ts';
import type { TrafficReport } from './wire.ts';

export interface Counted {
  take(report: TrafficReport): void;
  end(): void;
}

export function makeCounted(began: Forwarding['beginTraffic']): Counted {
  const open = new Map<string, (() => void)[]>();
  return {
    take(report) {
      for (const { instanceId, kind, open: wanted, began: came } of report) {
        const key = `${kind} ${instanceId}`;
        const dones = open.get(key) ?? [];
        // Connections that came and went between two reports count as use.
        if (came > 0 && dones.length >= wanted) began(instanceId, kind)();
        while (dones.length < wanted) dones.push(began(instanceId, kind));
        while (dones.length > wanted) dones.pop()?.();
        if (wanted === 0) open.delete(key);
        else open.set(key, dones);
      }
    },
    end() {
      for (const dones of open.values()) for (const done of dones) done();
      open.clear();
    },
  };
}

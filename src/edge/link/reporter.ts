import type { Forwarding, TrafficKind } from '../../control/index.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { TrafficReport } from './wire.ts';

const EVERY_MS = 1_000;

export interface Reporter extends Pick<Forwarding, 'beginTraffic'> {
  /** Includes unchanged counts, for an API that just started. */
  sendAll(): void;
  stop(): void;
}

export function makeReporter(deps: {
  send: (report: TrafficReport) => Promise<void>;
  isConnected: () => boolean;
}): Reporter {
  const counts: Record<TrafficKind, Map<string, TrafficReport[number]>> = { use: new Map(), poll: new Map() };
  const changed = new Set<TrafficReport[number]>();
  let sending = false;

  async function send(): Promise<void> {
    if (sending || changed.size === 0 || !deps.isConnected()) return;
    sending = true;
    const sent = [...changed];
    changed.clear();
    const report = sent.map((one) => ({ ...one }));
    try {
      await deps.send(report);
      for (const [at, one] of sent.entries()) subtract(one, report[at]?.began ?? 0);
    } catch {
      // During an outage the next report repeats these counts.
      for (const one of sent) changed.add(one);
    } finally {
      sending = false;
    }
  }

  function subtract(one: TrafficReport[number], reported: number): void {
    one.began -= reported;
    if (one.open === 0 && one.began === 0 && !changed.has(one)) counts[one.kind].delete(one.instanceId);
  }

  const timer = setInterval(() => void send(), EVERY_MS);
  timer.unref();

  return {
    beginTraffic(instanceId: InstanceId, kind: TrafficKind) {
      let one = counts[kind].get(instanceId);
      if (one === undefined) counts[kind].set(instanceId, (one = { instanceId, kind, open: 0, began: 0 }));
      const counted = one;
      counted.open += 1;
      counted.began += 1;
      changed.add(counted);
      return () => {
        counted.open -= 1;
        changed.add(counted);
      };
    },
    sendAll() {
      for (const kind of [counts.use, counts.poll]) for (const one of kind.values()) changed.add(one);
      void send();
    },
    stop: () => clearInterval(timer),
  };
}

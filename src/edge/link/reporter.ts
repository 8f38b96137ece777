import type { Forwarding, TrafficKind } from '../../control/index.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { TrafficReport } from './wire.ts';

const EVERY_MS = 1_000;

export interface Reporter extends Pick<Forwarding, 'beginTraffic'> {
  /** Sends unchanged counts too, for an API that just started. */
  sendAll(): void;
  stop(): void;
}

export function makeReporter(deps: {
  send: (report: TrafficReport) => Promise<void>;
  isThere: () => boolean;
}): Reporter {
  const counts: Record<TrafficKind, Map<string, TrafficReport[number]>> = { use: new Map(), poll: new Map() };
  const changed = new Set<TrafficReport[number]>();
  let sending = false;

  async function send(): Promise<void> {
    if (sending || changed.size === 0 || !deps.isThere()) return;
    sending = true;
    const told = [...changed];
    changed.clear();
    const report = told.map((one) => ({ ...one }));
    try {
      await deps.send(report);
      for (const [at, one] of told.entries()) forget(one, report[at]?.began ?? 0);
    } catch {
      // The API is away: the next report repeats these counts.
      for (const one of told) changed.add(one);
    } finally {
      sending = false;
    }
  }

  function forget(one: TrafficReport[number], told: number): void {
    one.began -= told;
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

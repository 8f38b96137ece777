/** What goes to each instance, told to the API now and then: what is open, and how much began since the last time. */
import type { Forwarding, TrafficKind } from '../../control/control.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { TrafficReport } from './wire.ts';

const EVERY_MS = 1_000;

export interface Reporter extends Pick<Forwarding, 'began'> {
  /** Also what has not changed: to one that knows nothing yet. */
  sendAll(): void;
  stop(): void;
}

export function makeReporter(needs: {
  send: (report: TrafficReport) => Promise<void>;
  isThere: () => boolean;
}): Reporter {
  const counts = new Map<string, TrafficReport[number]>();
  const changed = new Set<string>();
  let sending = false;

  async function send(): Promise<void> {
    if (sending || changed.size === 0 || !needs.isThere()) return;
    sending = true;
    const keys = [...changed];
    changed.clear();
    const report = keys.flatMap((key) => counts.get(key) ?? []).map((one) => ({ ...one }));
    try {
      await needs.send(report);
      for (const { instanceId, kind, began } of report) forget(`${kind} ${instanceId}`, began);
    } catch {
      // The API is away, or was: it is told with the next.
      for (const key of keys) changed.add(key);
    } finally {
      sending = false;
    }
  }

  function forget(key: string, told: number): void {
    const one = counts.get(key);
    if (one === undefined) return;
    one.began -= told;
    if (one.open === 0 && one.began === 0 && !changed.has(key)) counts.delete(key);
  }

  const timer = setInterval(() => void send(), EVERY_MS);
  timer.unref();

  return {
    began(instanceId: InstanceId, kind: TrafficKind) {
      const key = `${kind} ${instanceId}`;
      const one = counts.get(key) ?? { instanceId, kind, open: 0, began: 0 };
      counts.set(key, one);
      one.open += 1;
      one.began += 1;
      changed.add(key);
      return () => {
        one.open -= 1;
        changed.add(key);
      };
    },
    sendAll() {
      for (const key of counts.keys()) changed.add(key);
      void send();
    },
    stop: () => clearInterval(timer),
  };
}

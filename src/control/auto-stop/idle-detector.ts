/**
 * # Idle detection
 *
 * Periodically reads the signals of each running instance with an idle policy, assesses them,
 * warns, and stops it as its owner would. Holds no lease and stores nothing. Software inside may
 * delay a check, so a fair semaphore limits concurrent checks per owner.
 */
import type { Instance } from '../../domain/instance.ts';
import {
  isActive,
  isFresh,
  assessIdleness,
  requiredSignals,
  noIdleWatch,
  type IdleLimits,
  type IdlePolicy,
  type IdleVerdict,
  type Signal,
} from '../../domain/idle.ts';
import { idleWatchedIds } from '../../store/tables/stop-policy.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { lockInstance, instanceFromRow, runningRowsAmong } from '../../store/tables/instances.ts';
import type { StopAutomatically } from '../instances/actions.ts';
import { makeSemaphore } from '../../async/semaphore.ts';
import { deadlineWithin, type TaskDeps } from '../base/task-deps.ts';
import { readSignals } from './signals.ts';
import type { Traffic } from './traffic.ts';

export interface IdleStatus {
  state: 'active' | 'idle' | 'unknown' | 'off';
  because: string;
  idleSinceMs: number | null;
  willStopAtMs: number | null;
  lookedAtMs: number | null;
  signals: (Signal & { says: 'active' | 'idle' | 'stale' })[];
}

const AT_ONCE = 8;
const AT_ONCE_EACH = 2;
const IDS_AT_ONCE = 500;
const LOOK_DEADLINE_MS = 10_000;
const TRAFFIC_KEPT_MS = 3_600_000;

export interface IdleDetectorDeps extends TaskDeps {
  limits: IdleLimits;
  traffic: Traffic;
  stopAutomatically: StopAutomatically;
}

export interface ReportedSignal extends Signal {
  says: 'active' | 'idle' | 'stale';
}

export interface IdleReport extends Omit<IdleVerdict, 'action' | 'watch'> {
  lookedAtMs: number;
  signals: ReportedSignal[];
}

export interface IdleDetector {
  tick(): Promise<void>;
  settled(): Promise<void>;
  /** Result of the last check; null without one of this run and policy. */
  report(instance: Instance): IdleReport | null;
}

interface Watched {
  ownerId: string;
  /** Run and policy; another pair resets the state. */
  of: string;
  nextLookMs: number;
  signals: Signal[];
  judgement: IdleVerdict | null;
}

export function makeIdleDetector(deps: IdleDetectorDeps): IdleDetector {
  const { store, regions, now, time, log, limits, traffic, stopping } = deps;
  const watched = new Map<string, Watched>();
  const looks = new Map<string, Promise<void>>();
  const semaphore = makeSemaphore(AT_ONCE, { perOwner: AT_ONCE_EACH });
  let cursor = '';

  const entryOf = (instance: Instance): Watched => {
    const of = watchedAs(instance);
    const before = watched.get(instance.id);
    const entry = before?.of === of ? before : unseen(instance.ownerId, of);
    watched.set(instance.id, entry);
    return entry;
  };

  /** Rereads the row, as the check may have waited for a permit. */
  const lookAt = async (id: string): Promise<void> => {
    const [row] = await runningRowsAmong(store.read, [id]);
    if (!row?.idleAfterMs) return void watched.delete(id);
    const instance = instanceFromRow(row);
    const policy = instance.stopPolicy.idle;
    if (!policy) return;
    const entry = entryOf(instance);
    entry.nextLookMs = now() + limits.checkEveryMs;
    const required = requiredSignals(policy, instance.spec.type.gpuCount > 0);
    const inside = {
      engine: regions.of(row.regionId).engine,
      id: instance.id,
      time,
      signal: deadlineWithin({ stopping, time }, LOOK_DEADLINE_MS),
    };
    const read = await readSignals({
      inside,
      instance,
      notebookToken: row.notebookToken,
      policy,
      required,
      traffic,
      probeMs: limits.probeMs,
    });
    if (stopping.aborted) return;
    // A failed read does not discard a signal that is still fresh.
    entry.signals = read.map((signal) => (signal.atMs > 0 ? signal : (lastOf(entry, signal.name) ?? signal)));
    const nowMs = now();
    const judgement = assessIdleness(
      { policy, required, limits },
      entry.judgement?.watch ?? noIdleWatch,
      entry.signals,
      nowMs,
    );
    if (judgement.action === 'warn') await warn(instance, judgement);
    if (judgement.action === 'stop') await stop(instance, policy, judgement, nowMs);
    entry.judgement = judgement;
    const { willStopAtMs } = judgement;
    // The stop happens at the announced time, not at the next regular check.
    if (willStopAtMs !== null && willStopAtMs > nowMs) entry.nextLookMs = Math.min(entry.nextLookMs, willStopAtMs);
  };

  const findNext = async (): Promise<void> => {
    const afterId = cursor;
    const ids = await idleWatchedIds(store.read, afterId, IDS_AT_ONCE);
    cursor = ids.length === IDS_AT_ONCE ? (ids.at(-1) ?? '') : '';
    const there = new Set(ids);
    for (const id of watched.keys())
      if (id > afterId && (cursor === '' || id <= cursor) && !there.has(id)) watched.delete(id);
    const found = await runningRowsAmong(
      store.read,
      ids.filter((id) => !watched.has(id)),
    );
    for (const { id, ownerId } of found) watched.set(id, unseen(ownerId, ''));
  };

  const begin = (id: string, ownerId: string): void => {
    const look = semaphore
      .run(() => lookAt(id), { owner: ownerId, signal: stopping })
      .catch((error: unknown) => {
        if (!stopping.aborted) log.warn({ id, err: error }, 'an instance could not be judged; it is looked at again');
      })
      .finally(() => looks.delete(id));
    looks.set(id, look);
  };

  const lastOf = ({ signals }: Watched, name: Signal['name']): Signal | undefined =>
    signals.find((signal) => signal.name === name && isFresh(signal, now(), limits));

  const warn = ({ id, ownerId }: Instance, { idleSinceMs, willStopAtMs }: IdleVerdict): Promise<void> =>
    store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      if (!row || row.desired !== 'running') return;
      const data = { idleSince: idleSinceMs, willStopAt: willStopAtMs };
      await appendEvent(tx, { accountId: ownerId, atMs: now(), kind: 'instance.idleWarning', subjectId: id, data });
    });

  const stop = async (
    instance: Instance,
    policy: IdlePolicy,
    { idleSinceMs }: IdleVerdict,
    judgedAtMs: number,
  ): Promise<void> => {
    const seconds = Math.round((judgedAtMs - (idleSinceMs ?? judgedAtMs)) / 1000);
    const because = `nothing has used it for ${seconds} s, and it is to stop after ${Math.round(policy.afterMs / 1000)} s`;
    await deps.stopAutomatically(instance, (held, nowMs) => {
      const sameRun = held.observed.status === 'Running' && watchedAs(held) === watchedAs(instance);
      // A request after the assessment is in no signal yet.
      const quiet = traffic.of(held.id, ['use']).lastMs < judgedAtMs && held.stopPolicy.keepAliveUntilMs <= nowMs;
      return sameRun && quiet ? { cause: 'IdleStop', why: { because, idleSince: idleSinceMs } } : null;
    });
  };

  return {
    async tick() {
      traffic.forget(TRAFFIC_KEPT_MS);
      await findNext();
      const nowMs = now();
      for (const [id, { ownerId, nextLookMs }] of watched) {
        // A later time means a clock step.
        const isDue = nextLookMs <= nowMs || nextLookMs > nowMs + limits.checkEveryMs;
        if (isDue && !looks.has(id) && !stopping.aborted) begin(id, ownerId);
      }
    },
    async settled() {
      await Promise.all(looks.values());
    },
    report(instance) {
      const entry = watched.get(instance.id);
      if (!entry?.judgement || entry.of !== watchedAs(instance)) return null;
      const { action: _, watch, ...judged } = entry.judgement;
      const nowMs = now();
      const says = (signal: Signal): ReportedSignal['says'] =>
        !isFresh(signal, nowMs, limits) ? 'stale' : isActive(signal, watch.assessedAtMs, limits) ? 'active' : 'idle';
      return {
        ...judged,
        lookedAtMs: watch.assessedAtMs,
        signals: entry.signals.map((one) => ({ ...one, says: says(one) })),
      };
    },
  };
}

const unseen = (ownerId: string, of: string): Watched => ({
  ownerId,
  of,
  nextLookMs: 0,
  signals: [],
  judgement: null,
});

const watchedAs = ({ observed, stopPolicy }: Instance): string =>
  `${observed.runningSinceMs} ${JSON.stringify(stopPolicy.idle)}`;

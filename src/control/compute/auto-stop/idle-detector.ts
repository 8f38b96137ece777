/**
 * # Idle detection
 *
 * Periodically reads the signals of each running instance with an idle policy, assesses them,
 * warns, and stops it as its owner would. Holds no lease and stores nothing. Software inside may
 * delay a check, so a fair semaphore limits concurrent checks per owner.
 */
import { gpuCountOf } from '../../../domain/regions/catalog.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import {
  isActive,
  isFresh,
  assessIdleness,
  requiredSignals,
  noIdleWatch,
  type IdleLimits,
  type IdlePolicy,
  type IdleState,
  type IdleVerdict,
  type IdleSignal,
  type signalVerdicts,
} from '../../../domain/compute/idle.ts';
import { idleWatchedIds, runningRowsAmong } from '../../../store/tables/instance-queries.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { lockInstance, instanceFromRow } from '../../../store/tables/instances.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import { readSignals } from './signals.ts';
import { type StopAutomatically, deadlineWithin, type TaskDeps } from '../../kernel/ports.ts';
import type { NotebookTokens, Traffic } from '../../access/ports.ts';

export interface IdleStatus {
  state: IdleState;
  because: string;
  idleSinceMs: number | null;
  willStopAtMs: number | null;
  checkedAtMs: number | null;
  signals: ReportedSignal[];
}

const MAX_CHECKS = 8;
const CHECKS_PER_OWNER = 2;
const IDS_AT_ONCE = 500;
const CHECK_DEADLINE_MS = 10_000;
const TRAFFIC_RETENTION_MS = 3_600_000;

export interface IdleDetectorDeps extends TaskDeps {
  idleLimits: IdleLimits;
  traffic: Traffic;
  stopAutomatically: StopAutomatically;
  notebookTokens: Pick<NotebookTokens, 'open'>;
}

export interface ReportedSignal extends IdleSignal {
  says: (typeof signalVerdicts)[number];
}

export interface IdleReport extends Omit<IdleVerdict, 'action' | 'watch'> {
  checkedAtMs: number;
  signals: ReportedSignal[];
}

export interface IdleDetector {
  tick(): Promise<void>;
  settled(): Promise<void>;
  report(instance: Instance): IdleReport | null;
}

interface Watched {
  ownerId: string;
  /** Run and policy; another pair resets the state. */
  of: string;
  nextCheckMs: number;
  signals: IdleSignal[];
  verdict: IdleVerdict | null;
}

export function makeIdleDetector(deps: IdleDetectorDeps): IdleDetector {
  const { store, regions, time, log, idleLimits: limits, traffic, stopping, notebookTokens } = deps;
  const { warn, stop } = makeIdleActions(deps);
  const watched = new Map<string, Watched>();
  const checks = new Map<string, Promise<void>>();
  const semaphore = makeSemaphore(MAX_CHECKS, { perOwner: CHECKS_PER_OWNER });
  let cursor = '';

  const entryOf = (instance: Instance): Watched => {
    const of = watchedAs(instance);
    const before = watched.get(instance.id);
    const entry = before?.of === of ? before : newWatch(instance.ownerId, of);
    watched.set(instance.id, entry);
    return entry;
  };

  /** Rereads the row, as the check may have waited for a permit. */
  const check = async (id: string): Promise<void> => {
    const [row] = await runningRowsAmong(store.read, [id]);
    if (!row?.idleAfterMs) return void watched.delete(id);
    const instance = instanceFromRow(row);
    const policy = instance.stopPolicy.idle;
    if (!policy) return;
    const entry = entryOf(instance);
    entry.nextCheckMs = time.now() + limits.checkEveryMs;
    const required = requiredSignals(policy, gpuCountOf(instance.spec) > 0);
    const { engine } = regions.of(row.regionId);
    const inside = { engine, id: instance.id, time, signal: deadlineWithin(deps, CHECK_DEADLINE_MS) };
    const notebookToken = notebookTokens.open(row);
    const { probeMs } = limits;
    const read = await readSignals({ inside, instance, notebookToken, policy, required, traffic, probeMs });
    if (stopping.aborted) return;
    // A failed read does not discard a signal that is still fresh.
    const fresh = entry.signals.filter((signal) => isFresh(signal, time.now(), limits));
    entry.signals = read.map((signal) =>
      signal.atMs > 0 ? signal : (fresh.find(({ name }) => name === signal.name) ?? signal),
    );
    const [nowMs, assessedMs] = [time.now(), time.elapsed()];
    const watch = entry.verdict?.watch ?? noIdleWatch;
    const verdict = assessIdleness({ policy, required, limits }, watch, entry.signals, nowMs);
    if (verdict.action === 'warn') await warn(instance, verdict);
    if (verdict.action === 'stop') await stop(instance, policy, verdict, { nowMs, assessedMs });
    entry.verdict = verdict;
    const { willStopAtMs } = verdict;
    // The stop happens at the announced time, not at the next regular check.
    if (willStopAtMs !== null && willStopAtMs > nowMs) entry.nextCheckMs = Math.min(entry.nextCheckMs, willStopAtMs);
  };

  const findNext = async (): Promise<void> => {
    const afterId = cursor;
    const ids = await idleWatchedIds(store.read, afterId, IDS_AT_ONCE);
    cursor = ids.length === IDS_AT_ONCE ? (ids.at(-1) ?? '') : '';
    const listedIds = new Set(ids);
    for (const id of watched.keys())
      if (id > afterId && (cursor === '' || id <= cursor) && !listedIds.has(id)) watched.delete(id);
    const unwatched = await runningRowsAmong(
      store.read,
      ids.filter((id) => !watched.has(id)),
    );
    for (const { id, ownerId } of unwatched) watched.set(id, newWatch(ownerId, ''));
  };

  const begin = (id: string, ownerId: string): void => {
    const running = semaphore
      .run(() => check(id), { owner: ownerId, signal: stopping })
      .catch((error: unknown) => {
        if (!stopping.aborted)
          log.warn({ id, err: error }, 'could not assess the idleness of an instance; Berth retries');
      })
      .finally(() => checks.delete(id));
    checks.set(id, running);
  };

  return {
    async tick() {
      traffic.forget(TRAFFIC_RETENTION_MS);
      await findNext();
      const nowMs = time.now();
      for (const [id, { ownerId, nextCheckMs }] of watched) {
        // A later time means a clock step.
        const isDue = nextCheckMs <= nowMs || nextCheckMs > nowMs + limits.checkEveryMs;
        if (isDue && !checks.has(id) && !stopping.aborted) begin(id, ownerId);
      }
    },
    async settled() {
      await Promise.all(checks.values());
    },
    report(instance) {
      const entry = watched.get(instance.id);
      return entry?.of === watchedAs(instance) ? reportOf(entry, time.now(), limits) : null;
    },
  };
}

function reportOf({ verdict, signals }: Watched, nowMs: number, limits: IdleLimits): IdleReport | null {
  if (!verdict) return null;
  const { action: _, watch, ...assessed } = verdict;
  const says = (signal: IdleSignal): ReportedSignal['says'] =>
    !isFresh(signal, nowMs, limits) ? 'stale' : isActive(signal, watch.assessedAtMs, limits) ? 'active' : 'idle';
  return {
    ...assessed,
    checkedAtMs: watch.assessedAtMs,
    signals: signals.map((signal) => ({ ...signal, says: says(signal) })),
  };
}

function makeIdleActions({ store, time, traffic, stopAutomatically }: IdleDetectorDeps) {
  const warn = ({ id, ownerId }: Instance, { idleSinceMs, willStopAtMs }: IdleVerdict): Promise<void> =>
    store.write(async (tx) => {
      const row = await lockInstance(tx, ownerId, id);
      if (!row || row.desired !== 'running') return;
      const data = { idleSince: idleSinceMs, willStopAt: willStopAtMs };
      const atMs = time.now();
      await appendEvent(tx, { accountId: ownerId, atMs, kind: 'instance.idleWarning', subjectId: id, data });
    });

  const stop = async (
    instance: Instance,
    policy: IdlePolicy,
    { idleSinceMs }: IdleVerdict,
    { nowMs: assessedAtMs, assessedMs }: { nowMs: number; assessedMs: number },
  ): Promise<void> => {
    const seconds = Math.round((assessedAtMs - (idleSinceMs ?? assessedAtMs)) / 1000);
    const because = `nothing has used the instance for ${seconds} s; its idle stop is after ${Math.round(policy.afterMs / 1000)} s`;
    await stopAutomatically(instance, (current, nowMs) => {
      const isSameRun = current.observed.status === 'Running' && watchedAs(current) === watchedAs(instance);
      // A request after the assessment is in no signal yet.
      const isQuiet =
        traffic.of(current.id, ['use']).lastMs < assessedMs && current.stopPolicy.keepAliveUntilMs <= nowMs;
      return isSameRun && isQuiet ? { cause: 'IdleStop', why: { because, idleSince: idleSinceMs } } : null;
    });
  };

  return { warn, stop };
}

const newWatch = (ownerId: string, of: string): Watched => {
  return { ownerId, of, nextCheckMs: 0, signals: [], verdict: null };
};

const watchedAs = ({ observed, stopPolicy }: Instance): string =>
  `${observed.runningSinceMs} ${JSON.stringify(stopPolicy.idle)}`;

/**
 * # Idle detection
 *
 * Periodically reads the signals of each running instance with an idle policy, assesses them,
 * warns, and stops it as its owner would. An idle instance has a row, written on change, for the
 * next process. Where an autoscaler ends idle instances, every running instance is assessed, and
 * protected by the engine while in use. Software inside may delay a check, so a fair semaphore
 * limits concurrent checks per owner.
 */
import { isDeepStrictEqual } from 'node:util';
import { gpuCountOf } from '../../../domain/regions/catalog.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import {
  isActive,
  isFresh,
  assessIdleness,
  idlePolicy,
  requiredSignals,
  noIdleWatch,
  type IdleLimits,
  type IdlePolicy,
  type IdleState,
  type IdleVerdict,
  type IdleWatch,
  type IdleSignal,
  type signalVerdicts,
} from '../../../domain/compute/idle.ts';
import { idleWatchedIds, runningIds, runningRowsAmong } from '../../../store/tables/instance-queries.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { lockInstance, instanceFromRow } from '../../../store/tables/instances.ts';
import { dropWatches, saveWatches, takeOverWatches, type Watch } from '../../../store/tables/watches.ts';
import type { Db } from '../../../store/store.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import type { Protection } from '../../../engines/capabilities.ts';
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
  /** To be called before the first sweep. */
  takeOver(): Promise<void>;
  tick(): Promise<void>;
  settled(): Promise<void>;
  report(instance: Instance): IdleReport | null;
}

interface Watched {
  ownerId: string;
  /** Run and policy; another pair resets the state. */
  of: string;
  nextCheckMs: number;
  /** Monotonic. */
  readFromMs: number;
  signals: IdleSignal[];
  verdict: IdleVerdict | null;
  /** Undefined: this process does not know. */
  isProtected?: boolean;
}

export function makeIdleDetector(deps: IdleDetectorDeps): IdleDetector {
  const { store, regions, time, log, idleLimits: limits, traffic, stopping, notebookTokens } = deps;
  const { warn, stop } = makeIdleActions(deps);
  const rows = makeIdleRows(deps, warn);
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

  const forget = (ids: readonly string[]): Promise<void> => {
    for (const id of ids) watched.delete(id);
    return rows.drop(ids);
  };

  /** Rereads the row, as the check may have waited for a permit. */
  const check = async (id: string): Promise<void> => {
    const [row] = await runningRowsAmong(store.read, [id]);
    if (!row) return forget([id]);
    const instance = instanceFromRow(row);
    const { engine } = regions.of(row.regionId);
    const { protection } = engine;
    const ownPolicy = row.idleAfterMs ? instance.stopPolicy.idle : null;
    const policy = ownPolicy ?? (protection && idlePolicy(protection.idleMs));
    if (!policy) return forget([id]);
    const entry = entryOf(instance);
    const readFromMs = time.elapsed();
    entry.nextCheckMs = time.now() + limits.checkEveryMs;
    const required = requiredSignals(policy, gpuCountOf(instance.spec) > 0);
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
    const nowMs = time.now();
    const watch = entry.verdict?.watch ?? rows.takenOver(id, entry.of) ?? noIdleWatch;
    const verdict = assessIdleness({ policy, required, limits }, watch, entry.signals, nowMs);
    if (ownPolicy) {
      await rows.follow(instance, entry.of, verdict);
      if (verdict.action === 'stop') await stop(instance, policy, verdict, { nowMs, readFromMs });
    }
    Object.assign(entry, { verdict, readFromMs });
    const { willStopAtMs } = verdict;
    // The stop happens at the announced time, not at the next regular check.
    if (willStopAtMs !== null && willStopAtMs > nowMs) entry.nextCheckMs = Math.min(entry.nextCheckMs, willStopAtMs);
    if (protection && !instance.spec.isSpot) await followUse(deps, instance.id, entry, protection);
  };

  const findNext = async (): Promise<void> => {
    const afterId = cursor;
    const ids = await idleWatchedIds(store.read, afterId, IDS_AT_ONCE);
    cursor = ids.length === IDS_AT_ONCE ? (ids.at(-1) ?? '') : '';
    const listedIds = new Set([...ids, ...(await protectedIds(deps))]);
    const known = [...watched.keys(), ...rows.ids()];
    await forget(known.filter((id) => id > afterId && (cursor === '' || id <= cursor) && !listedIds.has(id)));
    const missing = [...listedIds].filter((id) => !watched.has(id));
    const unwatched = await runningRowsAmong(store.read, missing.slice(0, IDS_AT_ONCE));
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
    takeOver: () => rows.takeOver(),
    async tick() {
      traffic.forget(TRAFFIC_RETENTION_MS);
      await findNext();
      const nowMs = time.now();
      const outdated: string[] = [];
      for (const [id, { ownerId, nextCheckMs, readFromMs, verdict }] of watched) {
        // Rows must not outlast a use known to this process alone, nor a late check.
        const isLate = verdict !== null && nowMs - verdict.watch.assessedAtMs > limits.staleMs;
        if (isLate || traffic.of(id, ['use']).lastMs > readFromMs) outdated.push(id);
        // A later time means a clock step.
        const isDue = nextCheckMs <= nowMs || nextCheckMs > nowMs + limits.checkEveryMs;
        if (isDue && !checks.has(id) && !stopping.aborted) begin(id, ownerId);
      }
      await rows.drop(outdated);
    },
    async settled() {
      await Promise.all(checks.values());
    },
    report(instance) {
      const entry = watched.get(instance.id);
      return instance.stopPolicy.idle && entry?.of === watchedAs(instance) ? reportOf(entry, time.now(), limits) : null;
    },
  };
}

/** Running instances of regions where an autoscaler ends idle instances. */
async function protectedIds({ regions, store }: IdleDetectorDeps): Promise<string[]> {
  const scaled = regions.all().filter(({ engine }) => engine.protection !== undefined);
  return (await Promise.all(scaled.map(({ regionId }) => runningIds(store.read, regionId)))).flat();
}

async function followUse(
  deps: IdleDetectorDeps,
  id: InstanceId,
  entry: Watched,
  { idleMs, set }: Protection,
): Promise<void> {
  const { state, idleSinceMs } = entry.verdict ?? {};
  const isUsed = state !== 'idle' || deps.time.now() - (idleSinceMs ?? Infinity) < idleMs;
  if (entry.isProtected === isUsed) return;
  await set(id, isUsed, deadlineWithin(deps, CHECK_DEADLINE_MS));
  entry.isProtected = isUsed;
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

function makeIdleRows(
  { store, time, idleLimits }: Pick<IdleDetectorDeps, 'store' | 'time' | 'idleLimits'>,
  warn: (tx: Db, instance: Instance, verdict: IdleVerdict) => Promise<void>,
) {
  const rows = new Map<string, Watch>();
  const seenAtMs = new Map<string, number>();
  return {
    ids: () => rows.keys(),
    async takeOver(): Promise<void> {
      const recent = { nowMs: time.now(), withinMs: idleLimits.staleMs };
      for (const { seenAtMs: atMs, ...row } of await store.write((tx) => takeOverWatches(tx, 'idle', recent))) {
        rows.set(row.subjectId, { ...row, kind: 'idle' });
        seenAtMs.set(row.subjectId, atMs);
      }
    },
    /** The last sweep stands for the last check. */
    takenOver(id: string, run: string): IdleWatch | undefined {
      const row = rows.get(id);
      const assessedAtMs = seenAtMs.get(id);
      if (row?.run !== run || assessedAtMs === undefined) return undefined;
      const { sinceMs, usedAtMs, willStopAtMs } = row;
      return { sinceMs, usedAtMs: usedAtMs ?? 0, willStopAtMs, assessedAtMs };
    },
    async follow(instance: Instance, run: string, verdict: IdleVerdict): Promise<void> {
      const { id } = instance;
      const row = rowOf(instance, run, verdict);
      const warns = verdict.action === 'warn';
      if (warns || !isDeepStrictEqual(row, rows.get(id)))
        await store.write(async (tx) => {
          if (warns) await warn(tx, instance, verdict);
          await (row ? saveWatches(tx, [row]) : dropWatches(tx, 'idle', [id]));
        });
      if (row) rows.set(id, row);
      else rows.delete(id);
      seenAtMs.delete(id);
    },
    async drop(ids: readonly string[]): Promise<void> {
      const stored = ids.filter((id) => rows.has(id));
      if (stored.length === 0) return;
      await store.write((tx) => dropWatches(tx, 'idle', stored));
      for (const id of stored) rows.delete(id);
    },
  };
}

function makeIdleActions({ time, traffic, stopAutomatically }: IdleDetectorDeps) {
  const warn = async (tx: Db, { id, ownerId }: Instance, { idleSinceMs, willStopAtMs }: IdleVerdict): Promise<void> => {
    const row = await lockInstance(tx, ownerId, id);
    if (!row || row.desired !== 'running') return;
    const data = { idleSince: idleSinceMs, willStopAt: willStopAtMs };
    const atMs = time.now();
    await appendEvent(tx, { accountId: ownerId, atMs, kind: 'instance.idleWarning', subjectId: id, data });
  };

  const stop = async (
    instance: Instance,
    policy: IdlePolicy,
    { idleSinceMs }: IdleVerdict,
    { nowMs: assessedAtMs, readFromMs }: { nowMs: number; readFromMs: number },
  ): Promise<void> => {
    const seconds = Math.round((assessedAtMs - (idleSinceMs ?? assessedAtMs)) / 1000);
    const because = `nothing has used the instance for ${seconds} s; its idle stop is after ${Math.round(policy.afterMs / 1000)} s`;
    await stopAutomatically(instance, (current, nowMs) => {
      const isSameRun = current.observed.status === 'Running' && watchedAs(current) === watchedAs(instance);
      // A later request may be in no signal yet.
      const isQuiet =
        traffic.of(current.id, ['use']).lastMs < readFromMs && current.stopPolicy.keepAliveUntilMs <= nowMs;
      return isSameRun && isQuiet ? { cause: 'IdleStop', why: { because, idleSince: idleSinceMs } } : null;
    });
  };

  return { warn, stop };
}

const newWatch = (ownerId: string, of: string): Watched => {
  return { ownerId, of, nextCheckMs: 0, readFromMs: 0, signals: [], verdict: null };
};

const rowOf = (
  { id, spec }: Instance,
  run: string,
  { state, watch: { sinceMs, usedAtMs, willStopAtMs } }: IdleVerdict,
): Watch | undefined =>
  state === 'idle' && sinceMs !== null
    ? { kind: 'idle', subjectId: id, regionId: spec.regionId, sinceMs, run, usedAtMs, willStopAtMs }
    : undefined;

const watchedAs = ({ observed, stopPolicy }: Instance): string =>
  `${observed.runningSinceMs} ${JSON.stringify(stopPolicy.idle)}`;

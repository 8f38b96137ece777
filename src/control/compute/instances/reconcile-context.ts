/** Context and state of one reconcile, and the writes of its observations. */
import type { Region } from '../../../domain/regions/catalog.ts';
import { backOffMs, type Limits } from '../../../domain/compute/instance-states.ts';
import type { Instance, InstanceSpec, Observed, RootDiskState } from '../../../domain/compute/instance.ts';
import type { PermanentFailure, InstanceObservation } from '../../../domain/compute/plan.ts';
import { advanceOperation } from '../../../domain/compute/operation.ts';
import { isSameRate, rateOfInstance } from '../../../domain/money/meter.ts';
import { endingOf, runChange } from '../../../domain/compute/start-outcomes.ts';
import { usageOfInstance } from '../../../domain/access/quota.ts';
import { bumpVersion } from '../../../store/tables/events.ts';
import { changeSpec, writeReconciledInstance } from '../../../store/tables/instances.ts';
import type { Db } from '../../../store/store.ts';
import type { Semaphore } from '../../../async/semaphore.ts';
import type { Variables } from './environment.ts';
import type { HealthChecks } from './health.ts';
import { type ImagePulls, releaseCapacity, type CredentialsFor } from '../../regions/ports.ts';
import type { StopAutomatically, TaskDeps, RegionDrivers } from '../../kernel/ports.ts';
import { meteredInstance, type MeteredDeps, followRun } from '../../money/ports.ts';
import type { NotebookTokens, SshHostKeys } from '../../access/ports.ts';
import type { HeldDisks } from '../../storage/ports.ts';

export interface InstanceReconcilerDeps
  extends Omit<TaskDeps, 'stopping'>, Pick<MeteredDeps, 'readCatalog' | 'metering' | 'spotGraceMs'> {
  imagePulls: ImagePulls;
  credentialsFor: CredentialsFor;
  engineSemaphore: (drivers: RegionDrivers) => Semaphore;
  random: () => number;
  limits: Limits;
  health: Pick<HealthChecks, 'answers' | 'gpuLostAtMs' | 'memoryKills' | 'notebookDiffers'>;
  heldDisks: Pick<HeldDisks, 'watch'>;
  sshHostKey: SshHostKeys;
  notebookTokens: Pick<NotebookTokens, 'open'>;
  stopAutomatically: StopAutomatically;
  variables: Pick<Variables, 'environmentOf' | 'redact'>;
}

export interface ReconcileContext {
  readonly deps: InstanceReconcilerDeps;
  readonly drivers: RegionDrivers;
  readonly region: Region;
  readonly leaseToken: string;
  /** Aborts when the lease is lost or a newer generation supersedes this one. */
  readonly signal: AbortSignal;
  /** Returns the secret shared by the gateway and the notebook alone. */
  readonly notebookToken: () => string;
}

/** The instance between two steps. A step returns the next state. */
export interface InstanceState {
  /** May hold changes that the next write persists. */
  readonly instance: Instance;
  readonly written: Instance;
  readonly holdsCapacity: boolean;
}

/** Plan again at once, after milliseconds, after a back-off, or (null) after the next change. */
export type NextReconcile = 'again' | number | BackOffDelay | null;

/** Delays the next attempt; a wake-up does not shorten it. */
export interface BackOffDelay {
  backOffMs: number;
}

export interface StepResult {
  state: InstanceState;
  next: NextReconcile;
  /** The engine's answer to `ensure`, which saves each launch one `observe`. */
  observation?: InstanceObservation;
}

/** The row moved to another generation or lease: the result of the step is out of date. */
export class Superseded extends Error {}

export const backOff = (attempts: number, { deps }: ReconcileContext): BackOffDelay => ({
  backOffMs: backOffMs(attempts, deps.limits),
});

export const callDeadline = ({ signal, deps }: ReconcileContext): AbortSignal =>
  AbortSignal.any([signal, deps.time.deadline(deps.limits.callDeadlineMs)]);

/** Changes the instance without a write; the next write persists it. */
export const withInstance = (state: InstanceState, change: Partial<Instance>): InstanceState => ({
  ...state,
  instance: { ...state.instance, ...change },
});

export const asWritten = (state: InstanceState, written: Instance): InstanceState => ({
  ...state,
  instance: written,
  written,
});

interface ObservedChange {
  observed?: Partial<Observed>;
  desired?: Instance['desired'];
  attempts?: number | undefined;
  initExit?: number | null;
  unfinished?: string[];
  rootDisk?: RootDiskState | undefined;
}

/** Writes what was observed. Throws `Superseded`. */
export async function writeObservation(
  context: ReconcileContext,
  state: InstanceState,
  { observed, ...change }: ObservedChange,
  { freeCapacity = false } = {},
): Promise<InstanceState> {
  const { instance } = state;
  const defined = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
  const next: Instance = { ...instance, ...defined, observed: { ...instance.observed, ...observed } };
  if (freeCapacity && state.holdsCapacity) {
    return writeInstance(context, state, next, {
      holdsCapacity: false,
      alongside: (tx) => releaseCapacity(tx, next.spec, context.deps.time.now()),
    });
  }
  return writeInstance(context, state, next);
}

/**
 * Fails the current operation permanently: the instance rests, with the reason. A container in use
 * keeps the capacity until the halt.
 */
export async function failInstance(
  context: ReconcileContext,
  state: InstanceState,
  { show }: PermanentFailure,
  { isRunning, usesHost } = { isRunning: false, usesHost: false },
): Promise<StepResult> {
  const nowMs = context.deps.time.now();
  const ending = isRunning ? endingOf(state.instance, show.diagnosis ?? '', nowMs) : null;
  const observed = { ...show, ending, stoppedAtMs: nowMs };
  const change = { observed, desired: 'stopped' } as const;
  const failed = withInstance(state, { notBeforeMs: null });
  return { state: await writeObservation(context, failed, change, { freeCapacity: !usesHost }), next: 'again' };
}

interface WriteOptions {
  holdsCapacity?: boolean;
  /** Joins the transaction. May lock the region: after the instance, before the account. */
  alongside?: (tx: Db) => Promise<void>;
  /** Changes the requested spec, too. */
  respec?: (spec: InstanceSpec) => InstanceSpec;
}

/** Writes the whole instance and publishes the change. Throws `Superseded`. */
export async function writeInstance(
  context: ReconcileContext,
  state: InstanceState,
  next: Instance,
  options: WriteOptions = {},
): Promise<InstanceState> {
  const { store, changes } = context.deps;
  const written = await store.write((tx) => writeInTransaction(tx, context, state, next, options));
  changes.publish({ subject: 'instance', id: next.id });
  return { ...asWritten(state, written), holdsCapacity: options.holdsCapacity ?? state.holdsCapacity };
}

/** Returns the row's content, with its operation advanced. Throws `Superseded`. */
export async function writeInTransaction(
  tx: Db,
  { deps, leaseToken, region }: ReconcileContext,
  { written: before, holdsCapacity }: InstanceState,
  next: Instance,
  { alongside, respec, ...options }: WriteOptions = {},
): Promise<Instance> {
  const { id, ownerId, generation, revision } = before;
  const nowMs = deps.time.now();
  const advanced = { ...next, operation: advanceOperation(next.operation, next.observed, nowMs) };
  const merged = await writeReconciledInstance(
    tx,
    { id, leaseToken, generation },
    { before, after: advanced },
    region,
    options,
  );
  if (!merged) throw new Superseded();
  if (respec) await changeSpec(tx, id, region, respec);
  const written = respec ? { ...merged, spec: respec(merged.spec) } : merged;
  await alongside?.(tx);
  const { status, phase, diagnosis, diagnosisMessage } = written.observed;
  // A row of another revision had the owner's change before this write.
  const stored = merged.revision === revision ? before : { ...before, spec: merged.spec, pending: merged.pending };
  const usage = {
    before: usageOfInstance(stored, holdsCapacity),
    after: usageOfInstance(written, options.holdsCapacity ?? holdsCapacity),
    mayRefuse: false,
  };
  const was = before.observed;
  const rates = { before: rateOfInstance(stored), after: rateOfInstance(written) };
  const looksSame = status === was.status && phase === was.phase && diagnosis === was.diagnosis;
  const run = runChange(stored, written, nowMs);
  if (looksSame && isSameRate(rates.before, rates.after) && run.gpuLostSinceMs === undefined) {
    await bumpVersion(tx, ownerId, { usage });
    return written;
  }
  // The diagnosis of an eviction passes with the next start.
  const why = diagnosis === 'Evicted' ? { reason: diagnosisMessage } : {};
  const data = { status, phase, ...(diagnosis === '' ? {} : { diagnosis }), ...why };
  const event = { accountId: ownerId, atMs: nowMs, kind: 'instance.observed', subjectId: id, data, usage };
  const { seq } = await deps.metering.appendEvent(tx, event, meteredInstance(written), { ...rates, ...run });
  await followRun(tx, { ...run, instance: written, seq, nowMs });
  return written;
}

/** What one run of an instance's pass works with, and how it writes down what it found. */
import type { Region } from '../../domain/catalog.ts';
import { backOffMs, type Limits } from '../../domain/instance-states.ts';
import type { Instance, Observed } from '../../domain/instance.ts';
import type { PermanentFailure, InstanceObservation } from '../../domain/plan.ts';
import { advanceOperation } from '../../domain/operation.ts';
import { appendEvent, bumpVersion } from '../../store/tables/events.ts';
import { writeReconciledInstance, type InstanceRow } from '../../store/tables/instances.ts';
import type { Db, Store } from '../../store/store.ts';
import type { Semaphore } from '../../async/semaphore.ts';
import type { ImagePulls } from '../images/image-pulls.ts';
import type { Log } from '../base/log.ts';
import type { HealthChecks } from './health.ts';
import { releaseCapacity } from '../capacity/queue.ts';
import type { LeasedRow } from '../base/reconcile-loop.ts';
import type { CatalogSnapshot } from '../base/catalog-cache.ts';
import type { CredentialsFor } from '../images/registries.ts';
import type { RegionDrivers, Regions } from '../base/regions.ts';
import type { SshHostKeys } from '../routing/ssh-host-key.ts';
import type { Time } from '../base/time.ts';
import type { PublishChanges } from '../base/changes.ts';

export interface InstanceReconcilerDeps {
  store: Store;
  regions: Regions;
  readCatalog: () => Promise<CatalogSnapshot>;
  imagePulls: ImagePulls;
  credentialsFor: CredentialsFor;
  engineSemaphore: (drivers: RegionDrivers) => Semaphore;
  now: () => number;
  time: Time;
  random: () => number;
  log: Log;
  limits: Limits;
  pidsLimit: number;
  health: Pick<HealthChecks, 'takeAnswer'>;
  sshHostKey: SshHostKeys;
  changes: PublishChanges;
}

/** Everything one run of the pass works with. */
export interface ReconcileContext {
  deps: InstanceReconcilerDeps;
  drivers: RegionDrivers;
  region: Region;
  held: LeasedRow<InstanceRow>;
  /** What is known of it, some of it not yet written. */
  instance: Instance;
  /** What the row holds. */
  written: Instance;
  /** The secret that only the gateway and the notebook share. */
  notebookToken: string;
  holdsCapacity: boolean;
  /** What the engine said as it was made to run: as good as another look, which would cost one more call in every launch. */
  justSeen: InstanceObservation | null;
}

/** Somebody moved the row meanwhile: what was found is out of date. */
export class Superseded extends Error {}

/** The next try is not before this is over, whatever wakes the row meanwhile. */
export interface BackOff {
  backOffMs: number;
}

/** What a step answers: look again at once, after so many milliseconds, or not until something happens. */
export type NextReconcile = 'again' | number | BackOff | null;

export const backOff = (attempts: number, { deps }: ReconcileContext): BackOff => ({
  backOffMs: backOffMs(attempts, deps.limits),
});

/** For calls that should be quick. */
export const callDeadline = ({ held, deps }: ReconcileContext): AbortSignal =>
  AbortSignal.any([held.signal, deps.time.deadline(deps.limits.callDeadlineMs)]);

interface ObservedChange {
  observed?: Partial<Observed>;
  desired?: Instance['desired'];
  attempts?: number | undefined;
  initExit?: number;
  unfinished?: string[];
}

/** Writes what was found, with the event of a changed status, if the row is still ours. */
export async function writeObservation(
  work: ReconcileContext,
  change: ObservedChange,
  more: { freeCapacity?: boolean } = {},
): Promise<void> {
  const { observed, ...rest } = change;
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  const next: Instance = { ...work.instance, ...known, observed: { ...work.instance.observed, ...observed } };
  const { regionId, type } = next.spec;
  if (more.freeCapacity && work.holdsCapacity) {
    await writeInstance(work, next, {
      holdsCapacity: false,
      alsoWrite: (tx) => releaseCapacity(tx, regionId, type, work.deps.now()),
    });
    work.holdsCapacity = false;
  } else await writeInstance(work, next);
}

/** The wish is given up: the instance rests, with the reason. */
export async function fail(work: ReconcileContext, { show }: PermanentFailure): Promise<NextReconcile> {
  const observed = { ...show, stoppedAtMs: work.deps.now() };
  await writeObservation(work, { observed, desired: 'stopped' }, { freeCapacity: true });
  return 'again';
}

interface WriteOptions {
  holdsCapacity?: boolean;
  /** What else changes with the row. It may lock the region: after the instance, before the account (`store/store.ts`). */
  alsoWrite?: (tx: Db) => Promise<void>;
}

/** As `note`, of the whole instance. */
export async function writeInstance(work: ReconcileContext, next: Instance, more: WriteOptions = {}): Promise<void> {
  work.instance = work.written = await work.deps.store.write((tx) => writeInTransaction(tx, work, next, more));
  work.deps.changes.publish({ subject: 'instance', id: next.id });
}

/** For those that find out in the same transaction what to write. Answers what was written: the operation went on with it. */
export async function writeInTransaction(
  tx: Db,
  work: ReconcileContext,
  found: Instance,
  { alsoWrite, ...more }: WriteOptions = {},
): Promise<Instance> {
  const { held, instance, deps } = work;
  const nowMs = deps.now();
  const wanted = { ...found, operation: advanceOperation(found.operation, found.observed, nowMs) };
  const hold = { id: instance.id, leaseToken: held.leaseToken, generation: instance.generation };
  const next = await writeReconciledInstance(tx, hold, wanted, work.region, more);
  if (!next) throw new Superseded();
  await alsoWrite?.(tx);
  const { status, phase, diagnosis } = next.observed;
  const was = work.written.observed;
  if (status === was.status && phase === was.phase && diagnosis === was.diagnosis) {
    await bumpVersion(tx, instance.ownerId);
    return next;
  }
  await appendEvent(tx, {
    accountId: instance.ownerId,
    atMs: nowMs,
    kind: 'instance.observed',
    subjectId: instance.id,
    data: { status, phase, ...(diagnosis === '' ? {} : { diagnosis }) },
  });
  return next;
}

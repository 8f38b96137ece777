/**
 * Brings an instance up: images, disks, node ports, container. The engine's faults become
 * diagnoses: temporary ones are retried with a back-off, others fail permanently.
 */
import { lostRootDiskText } from '../../../domain/compute/desired-state.ts';
import { ownDisks } from '../../../domain/compute/instance-disks.ts';
import { EngineFault, type FaultReason } from '../../../domain/regions/engine-fault.ts';
import { nextStatus, type Diagnosis } from '../../../domain/compute/instance-states.ts';
import type { Instance, Observed } from '../../../domain/compute/instance.ts';
import { beginStage, type StageName } from '../../../domain/compute/operation.ts';
import { diagnosisFields, failPermanently, type InstanceObservation } from '../../../domain/compute/plan.ts';
import { markProvisioned } from '../../../store/tables/disks.ts';
import { instanceRow, setFilesStale } from '../../../store/tables/instances.ts';
import { releaseNodePort } from '../../../store/tables/ports.ts';
import type { Db } from '../../../store/store.ts';
import type { EngineSpec } from '../../../engines/contract.ts';
import { dockerImageOf, ensureImages, ImageFault, PullHeld } from './ensure-images.ts';
import { continueWithoutGrowth } from './grow-disks.ts';
import { allotNodePorts, PortsUsedUp } from './node-ports.ts';
import { loseRootDisk } from './root-disk.ts';
import {
  areFilesStale,
  DisksFailed,
  DisksLost,
  engineSpec,
  makeOwnDisks,
  prepareDisks,
  VolumeNotReady,
} from './spec.ts';
import {
  asWritten,
  backOff,
  callDeadline,
  failInstance,
  withInstance,
  writeInTransaction,
  writeObservation,
  type InstanceState,
  type ReconcileContext,
  type StepResult,
} from './reconcile-context.ts';
import { misfitOf, type EnsuredImage } from '../../regions/ports.ts';
import { engineAnswers, isStorageAway } from '../../storage/ports.ts';

const VOLUME_POLL_MS = 1_000;
/** Retries of an engine that is away in the time of one look at an autoscaler. */
const NODE_RETRIES = 5;
/** The engine hints when the instance starts. */
const START_POLL_MS = 30_000;

/** Gives a running instance its current control files, and restarts its Docker sidecar. */
export async function refreshFiles(context: ReconcileContext, state: InstanceState): Promise<StepResult> {
  const { deps, drivers, signal } = context;
  const { instance } = state;
  try {
    const docker = dockerImageOf(context, instance);
    if (docker) await deps.imagePulls.ensure(drivers.engine, docker, () => {}, signal);
    await makeOwnDisks(context, instance);
    const spec = await engineSpec(context, instance);
    const observation = await callEnsure(context, instance, spec);
    const filesStale = await deps.store.write((tx) => changedSince(tx, context, instance, spec));
    // The files follow the row of now, which the next claim reads.
    if (filesStale) return { state, next: 0 };
    return { state: withInstance(state, { filesStale }), next: 'again', observation };
  } catch (error) {
    return retryDisks(context, state, error);
  }
}

/** A running instance with failing disks: logs for the operator and retries. */
function retryDisks({ deps }: ReconcileContext, state: InstanceState, error: unknown): StepResult {
  if (!(error instanceof DisksFailed) && !(error instanceof DisksLost)) throw error;
  deps.log.warn({ id: state.instance.id, err: error }, error.message);
  return { state, next: deps.limits.engineRetryMs };
}

/**
 * Clears the mark after the engine has the files. A change meanwhile sets it again: true. The first
 * write locks the row, so a concurrent change has committed, or sets the mark later.
 */
async function changedSince(tx: Db, context: ReconcileContext, instance: Instance, spec: EngineSpec): Promise<boolean> {
  await setFilesStale(tx, instance.id, false);
  const changed =
    (await areFilesStale(tx, context, instance, spec)) ||
    (await instanceRow(tx, instance.id))?.revision !== instance.revision;
  if (changed) await setFilesStale(tx, instance.id, true);
  return changed;
}

export async function ensureContainer(
  context: ReconcileContext,
  start: InstanceState,
  planned: Partial<Observed>,
): Promise<StepResult> {
  let state = enterStage(context, start, 'Image');
  let show = planned;
  try {
    const imageWasMissing = start.instance.observed.phase === 'DownloadImage';
    const images = await ensureImages(context, state, show);
    state = images.state;
    if (images.fault) throw images.fault;
    refuseUnfit(state.instance, images.ensured);
    if (images.ensured !== null) show = { ...show, imageNote: images.ensured.note };
    // A reported pull has moved the status on since the plan.
    const { status } = state.instance.observed;
    if (status === 'PullingImage') show = { ...show, status: nextStatus(status, 'create') };
    // A deadline bounds pulls, a count bounds container attempts: keep them apart.
    if (imageWasMissing) state = withInstance(state, { attempts: 0 });
    state = enterStage(context, state, 'Disks');
    await prepareDisks(context, state.instance);
    state = await allotPorts(context, state, show);
    const spec = await engineSpec(context, state.instance);
    const own = imageCommandOf(state.instance, images.ensured);
    const request = { ...spec, ...own, imageCredentials: images.credentials };
    const observation = await callEnsure(context, state.instance, request);
    const observed = { ...state.instance.observed, ...show, phase: 'WaitReady', runStartedAtMs: 0 } as const;
    return { state: enterStage(context, withInstance(state, { observed }), 'Readiness'), next: 'again', observation };
  } catch (error) {
    return afterError(context, state, show, error);
  }
}

class ImageUnfit extends Error {}

function refuseUnfit({ spec }: Instance, ensured: EnsuredImage | null): void {
  if (ensured === null) return;
  if (ensured.facts === null) {
    if (!spec.runImageCommand) return;
    throw new ImageUnfit('the engine does not say what the image declares; launch it without "runImageCommand"');
  }
  const why = misfitOf(ensured.facts, spec.runImageCommand);
  if (why !== null) throw new ImageUnfit(why);
}

function imageCommandOf({ spec }: Instance, ensured: EnsuredImage | null): Pick<EngineSpec, 'imageCommand'> {
  const facts = ensured?.facts;
  if (!spec.runImageCommand || !facts) return {};
  const { entrypoint, command } = facts.declares;
  return { imageCommand: { words: [...entrypoint, ...command], hasShell: facts.contains?.shell !== false } };
}

async function afterError(
  context: ReconcileContext,
  state: InstanceState,
  show: Partial<Observed>,
  error: unknown,
): Promise<StepResult> {
  const { log } = context.deps;
  const { instance } = state;
  if (error instanceof ImageUnfit)
    return failInstance(context, state, failPermanently(instance, 'ImageUnfit', error.message));
  if (error instanceof VolumeNotReady) {
    if (error.lost) return failInstance(context, state, failPermanently(instance, 'VolumeLost', error.message));
    const observed = { ...show, phase: 'PrepareDisks', ...diagnosisFields('VolumePending', error.message) } as const;
    return { state: await writeObservation(context, state, { observed }), next: VOLUME_POLL_MS };
  }
  if (error instanceof DisksFailed) {
    log.error({ id: instance.id, err: error.cause }, error.message);
    if (isStorageAway(error.cause)) {
      const observed = { ...show, phase: 'PrepareDisks', ...diagnosisFields('DisksFailed', error.message) } as const;
      return { state: await writeObservation(context, state, { observed }), next: context.deps.limits.engineRetryMs };
    }
    const isLast = instance.attempts >= context.deps.limits.maxAttempts;
    const without = await continueWithoutGrowth(context, state, { error, isLast });
    if (without !== null) return without;
    return retryLater(context, state, 'DisksFailed', error.message, { ...show, phase: 'PrepareDisks' });
  }
  if (error instanceof DisksLost) {
    log.error({ id: instance.id, disk: error.disk }, 'a disk of an instance is gone from its pool');
    return failInstance(context, state, failPermanently(instance, 'DisksLost', error.message));
  }
  if (error instanceof PortsUsedUp) return retryLater(context, state, 'PortTaken', error.message);
  if (error instanceof EngineFault) return afterFault(context, state, error);
  throw error;
}

const enterStage = ({ deps }: ReconcileContext, state: InstanceState, stage: StageName): InstanceState =>
  withInstance(state, { operation: beginStage(state.instance.operation, stage, deps.time.now()) });

function callEnsure(context: ReconcileContext, instance: Instance, spec: EngineSpec): Promise<InstanceObservation> {
  const { deps, drivers, signal } = context;
  const ensure = () => drivers.engine.ensure(spec, callDeadline(context));
  return deps.engineSemaphore(drivers).run(ensure, { owner: instance.ownerId, signal });
}

export async function afterFault(
  context: ReconcileContext,
  state: InstanceState,
  fault: EngineFault,
): Promise<StepResult> {
  const { deps, drivers, signal } = context;
  const { instance } = state;
  // A call that this reconcile aborted says nothing about the engine.
  signal.throwIfAborted();
  if (fault instanceof PullHeld) {
    const observed = { phase: 'DownloadImage', message: fault.message } as const;
    const attempts = Math.max(1, instance.attempts);
    return { state: await pullWithoutCapacity(context, state, { attempts, observed }), next: 'again' };
  }
  if (fault.reason === 'nodePending') return awaitCluster(context, state, fault);
  deps.log.warn({ id: instance.id, kind: fault.kind, err: fault }, 'a step failed at the engine');
  // A failed pull may mean the registry. Any other call: the engine is away, its effect unknown.
  const call = { engine: drivers.engine, time: deps.time, signal };
  if (fault.kind === 'unreachable' && !(fault instanceof ImageFault && (await engineAnswers(call)))) {
    const observed = diagnosisFields('EngineUnreachable', fault.message);
    return { state: await writeObservation(context, state, { observed }), next: deps.limits.engineRetryMs };
  }
  if (fault instanceof ImageFault) return afterImageFault(context, state, fault);
  if (fault.takenNodePort !== undefined) return changeNodePort(context, state, fault.takenNodePort, fault.message);
  if (fault.reason === 'portTaken') return awaitNodePort(context, state, fault.message);
  if (fault.reason === 'clusterFull') return awaitCluster(context, state, fault);
  if (fault.reason === 'imagePending') {
    const status = nextStatus(instance.observed.status, 'pull');
    const observed = { status, phase: 'DownloadImage', message: fault.message, ...diagnosisFields('', '') } as const;
    return { state: await writeObservation(context, state, { observed }), next: START_POLL_MS };
  }
  if (fault.reason === 'diskPending' || fault.reason === 'mountPending') {
    const observed = { phase: 'PrepareDisks', ...diagnosisFields('VolumePending', fault.message) } as const;
    const next = fault.reason === 'diskPending' ? deps.limits.engineRetryMs : START_POLL_MS;
    return { state: await writeObservation(context, state, { observed }), next };
  }
  if (fault.reason === 'startPending' && fault.retry) {
    const why = fault.kind === 'rejected' ? diagnosisFields('EngineRejected', fault.message) : {};
    const observed = { message: fault.message, ...why };
    return { state: await writeObservation(context, state, { observed }), next: START_POLL_MS };
  }
  if (fault.retry || fault.kind === 'not_found') {
    const diagnosis = fault.kind === 'not_found' ? 'BackOff' : diagnosisOf(fault, 'EngineRejected');
    return retryLater(context, state, diagnosis, fault.message);
  }
  const failure = failPermanently(instance, diagnosisOf(fault, 'EngineRejected'), fault.message);
  return failInstance(context, state, failure);
}

/** Frees the capacity of a pull. `awaitWindow` goes on with it, and then joins the queue. */
function pullWithoutCapacity(
  context: ReconcileContext,
  state: InstanceState,
  change: { attempts: number; observed: Partial<Observed> },
): Promise<InstanceState> {
  const notBeforeMs = state.instance.notBeforeMs ?? context.deps.time.now();
  return writeObservation(context, withInstance(state, { notBeforeMs }), change, { freeCapacity: true });
}

async function afterImageFault(
  context: ReconcileContext,
  state: InstanceState,
  fault: ImageFault,
): Promise<StepResult> {
  const { deps, drivers } = context;
  const { instance } = state;
  const { archive } = instance;
  if (fault.reason === 'imageMissing' && archive !== null && !drivers.archivePushed) {
    const next = { ...instance, archive: null };
    const { show } = failPermanently(instance, 'RootDiskLost', lostRootDiskText(next, 'archive'));
    return loseRootDisk(context, withInstance(state, next), { show });
  }
  // An old request may miss its image for the first time: so the count bounds the pulls, too.
  const fromMs = Math.max(instance.requestedAtMs, instance.observed.countedFromMs);
  const isOverdue =
    deps.time.now() - fromMs > deps.limits.imageDeadlineMs && instance.attempts >= deps.limits.maxAttempts;
  const status = nextStatus(instance.observed.status, 'imageFails');
  if (isOverdue || !fault.retry) {
    // Counts as a failed start, also of an instance still Initializing (docs/interface.md §10).
    const starting = { ...instance, observed: { ...instance.observed, status } };
    const failure = failPermanently(starting, diagnosisOf(fault, 'ImageFailed'), fault.message);
    return failInstance(context, state, failure);
  }
  const attempts = instance.attempts + 1;
  const why = diagnosisFields(fault.reason === 'diskFull' ? 'DiskFull' : 'BackOff', fault.message);
  const next = await pullWithoutCapacity(context, state, {
    attempts,
    observed: { status, phase: 'DownloadImage', message: '', progress: null, ...why },
  });
  return { state: next, next: backOff(attempts, context) };
}

/** Engine reasons that name their cause for certain. */
const certainDiagnoses: Readonly<Partial<Record<FaultReason, Diagnosis>>> = {
  imageDenied: 'ImageDenied',
  diskFull: 'DiskFull',
  badMount: 'BadMount',
  portTaken: 'PortTaken',
  outOfMemory: 'OutOfMemory',
};

const diagnosisOf = ({ reason }: EngineFault, otherwise: Diagnosis): Diagnosis =>
  (reason === undefined ? undefined : certainDiagnoses[reason]) ?? otherwise;

async function retryLater(
  context: ReconcileContext,
  state: InstanceState,
  diagnosis: Observed['diagnosis'],
  text: string,
  show: Partial<Observed> = {},
): Promise<StepResult> {
  const attempts = state.instance.attempts + 1;
  if (attempts > context.deps.limits.maxAttempts)
    return failInstance(context, state, failPermanently(state.instance, diagnosis, text));
  const observed = { ...show, ...diagnosisFields(diagnosis, text) };
  return { state: await writeObservation(context, state, { attempts, observed }), next: backOff(attempts, context) };
}

/** Commits the node ports and the mark that the engine is about to be called. */
async function allotPorts(
  context: ReconcileContext,
  state: InstanceState,
  show: Partial<Observed>,
): Promise<InstanceState> {
  const { drivers, deps } = context;
  const { instance } = state;
  const observed = {
    ...instance.observed,
    ...show,
    phase: 'CreateContainer',
    message: '',
    sshFront: false,
    ...diagnosisFields('', ''),
  } as const;
  const written = await deps.store.write(async (tx) => {
    const nodePorts = await allotNodePorts(tx, drivers, instance, deps.random);
    const allotted = { ...instance, nodePorts, everEnsured: true, mustHalt: false, observed };
    const disks = ownDisks(instance, drivers.sharedDiskGB);
    return writeInTransaction(tx, context, state, allotted, { alongside: () => markProvisioned(tx, disks, true) });
  });
  return asWritten(state, written);
}

/** Retries until the start's deadline: an instance that has run keeps its node ports. */
async function awaitNodePort(context: ReconcileContext, state: InstanceState, text: string): Promise<StepResult> {
  const attempts = Math.min(state.instance.attempts + 1, context.deps.limits.maxAttempts - 1);
  const next = await writeObservation(context, state, { attempts, observed: diagnosisFields('PortTaken', text) });
  return { state: next, next: backOff(attempts, context) };
}

/**
 * Retries until the start's deadline: nodes and quotas of a cluster change without Berth. A wait
 * for a node of an autoscaler is no failed attempt. A resumed spot instance waits without an end,
 * as in the capacity queue.
 */
async function awaitCluster(
  context: ReconcileContext,
  state: InstanceState,
  { message, reason }: EngineFault,
): Promise<StepResult> {
  const { limits, time } = context.deps;
  const isPending = reason === 'nodePending';
  const attempts = isPending ? state.instance.attempts : Math.min(state.instance.attempts + 1, limits.maxAttempts - 1);
  const isEndless = state.instance.operation.cause === 'resume';
  const observed = {
    ...diagnosisFields('NoCapacity', message),
    ...(isEndless ? { countedFromMs: time.now() } : {}),
  };
  const next = await writeObservation(context, state, { attempts, observed });
  // The engine's hint ends the pause once the instance has a node.
  return { state: next, next: isPending ? NODE_RETRIES * limits.engineRetryMs : backOff(attempts, context) };
}

/** Replaces a node port that another program of the host uses; keeps it if no other is free. */
async function changeNodePort(
  context: ReconcileContext,
  state: InstanceState,
  taken: number,
  text: string,
): Promise<StepResult> {
  const { drivers, deps } = context;
  const { instance } = state;
  const attempts = instance.attempts + 1;
  if (attempts > deps.limits.maxAttempts)
    return failInstance(context, state, failPermanently(instance, 'PortTaken', text));
  const wanted = instance.nodePorts.map((one) => (one.nodePort === taken ? { ...one, nodePort: 0 } : one));
  const observed = { ...instance.observed, ...diagnosisFields('PortTaken', text) };
  try {
    const written = await deps.store.write(async (tx) => {
      await releaseNodePort(tx, instance.id, taken);
      const nodePorts = await allotNodePorts(tx, drivers, { ...instance, nodePorts: wanted }, deps.random, taken);
      return writeInTransaction(tx, context, state, { ...instance, attempts, nodePorts, observed });
    });
    return { state: asWritten(state, written), next: attempts === 1 ? 'again' : backOff(attempts, context) };
  } catch (error) {
    if (!(error instanceof PortsUsedUp)) throw error;
    return retryLater(context, state, 'PortTaken', text);
  }
}

/**
 * How an instance is brought to run: image, disks, node ports, container. Each trouble is diagnosed by what the engine says of it;
 * what may pass by itself is tried again with back-off, what can't becomes a lasting failure.
 */
import { dataDiskGB, dockerDiskGB, ownDisks } from '../../domain/instance-disks.ts';
import { EngineFault, type FaultReason } from '../../domain/engine-fault.ts';
import { nextStatus, type Diagnosis } from '../../domain/instance-states.ts';
import type { Instance, Observed } from '../../domain/instance.ts';
import { endOperation, beginStage, type Progress, type StageName } from '../../domain/operation.ts';
import { diagnosisFields, failPermanently } from '../../domain/plan.ts';
import { markProvisioned } from '../../store/tables/disks.ts';
import { setFilesStale } from '../../store/tables/instances.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { releaseNodePort } from '../../store/tables/node-ports.ts';
import { authorizedKeysOf } from '../../store/tables/keys.ts';
import type { Db } from '../../store/store.ts';
import type { EngineSpec } from '../../engines/contract.ts';
import type { ImageRequest } from '../images/image-pulls.ts';
import { allotNodePorts, PortsUsedUp } from './node-ports.ts';
import { engineAnswers } from '../volumes/copy-deadline.ts';
import { imageRequestOf, withCredentialAdvice } from '../images/instance-image.ts';
import { makeInstanceProgressReporter } from './progress.ts';
import { DisksFailed, DisksLost, engineSpec, KEYS_FILE, makeOwnDisks, prepareDisks, VolumeNotReady } from './spec.ts';
import {
  backOff,
  fail,
  writeInstance,
  writeObservation,
  callDeadline,
  writeInTransaction,
  type NextReconcile,
  type ReconcileContext,
} from './reconcile-context.ts';

const VOLUME_POLL_MS = 1_000;
/** Of the image's deadline each try has at least such a share: a wish may be old when its image is missing for the first time. */
const LEAST_SHARE_OF_A_TRY = 10;
const SILENCE_MS = 1_000;

/** Hands a running instance the present control files, and its Docker back. */
export async function refreshFiles(work: ReconcileContext): Promise<NextReconcile> {
  const { deps, instance } = work;
  try {
    const daemonImage = dockerImage(work);
    if (daemonImage) await deps.imagePulls.ensure(work.drivers.engine, daemonImage, () => {}, work.held.signal);
    await makeOwnDisks(work);
    const spec = await engineSpec(work);
    await callEnsure(work, spec);
    const filesStale = await deps.store.write((tx) => keysChangedSince(tx, instance, spec));
    work.instance = { ...instance, filesStale };
    return 'again';
  } catch (error) {
    return retryDisks(work, error);
  }
}

/** It runs: what its disks lack is told to the operator, and asked for again. */
function retryDisks({ deps, instance: { id } }: ReconcileContext, error: unknown): NextReconcile {
  if (!(error instanceof DisksFailed) && !(error instanceof DisksLost)) throw error;
  deps.log.warn({ id, err: error }, error.message);
  return deps.limits.engineRetryMs;
}

/** Makes its disks as large as they are wished; whoever writes to one goes on. */
export async function growDisks(work: ReconcileContext): Promise<NextReconcile> {
  const { deps, instance } = work;
  try {
    await makeOwnDisks(work);
  } catch (error) {
    return retryDisks(work, error);
  }
  const { ownerId: accountId, id: subjectId, spec } = instance;
  const atMs = deps.now();
  const data = { dataDiskGB: dataDiskGB(spec), ...(spec.enableDocker ? { dockerStorageGB: dockerDiskGB(spec) } : {}) };
  const expanded = { ...instance, operation: endOperation(instance.operation, 'Succeeded', atMs) };
  await writeInstance(work, expanded, {
    alsoWrite: async (tx) =>
      void (await appendEvent(tx, { accountId, atMs, kind: 'instance.expanded', subjectId, data })),
  });
  return 'again';
}

/** The mark is taken off once they are there: a server that dies before hands them out again. What has changed since keeps it. */
async function keysChangedSince(tx: Db, { id, ownerId }: Instance, { files }: EngineSpec): Promise<boolean> {
  const given = files.find(({ name }) => name === KEYS_FILE)?.content;
  if ((await authorizedKeysOf(tx, ownerId)) !== given) return true;
  await setFilesStale(tx, id, false);
  return false;
}

/** Image, disks, node ports, container. Each trouble is diagnosed; what may pass is tried again with back-off. */
export async function ensureContainer(work: ReconcileContext, planned: Partial<Observed>): Promise<NextReconcile> {
  let show = planned;
  try {
    const imageWasMissing = work.instance.observed.phase === 'DownloadImage';
    enterStage(work, 'Image');
    await ensureImages(work, show);
    // A pull that was told of has moved it on since the plan.
    const { status } = work.instance.observed;
    if (status === 'PullingImage') show = { ...show, status: nextStatus(status, 'create') };
    // The tries of an image are bounded by a deadline, those of a container by their number: one must not count for the other.
    if (imageWasMissing) work.instance = { ...work.instance, attempts: 0 };
    enterStage(work, 'Disks');
    await prepareDisks(work);
    await allotPorts(work, show);
    const spec = await engineSpec(work);
    await callEnsure(work, spec);
    work.instance = {
      ...work.instance,
      observed: { ...work.instance.observed, ...show, phase: 'WaitReady' },
    };
    enterStage(work, 'Readiness');
    return 'again';
  } catch (error) {
    if (error instanceof VolumeNotReady) {
      if (error.lost) return fail(work, failPermanently(work.instance, 'VolumeLost', error.message));
      await writeObservation(work, {
        observed: { ...show, phase: 'PrepareDisks', ...diagnosisFields('VolumePending', error.message) },
      });
      return VOLUME_POLL_MS;
    }
    if (error instanceof DisksFailed) {
      work.deps.log.error({ id: work.instance.id, err: error.cause }, error.message);
      return retryLater(work, 'DisksFailed', error.message, { ...show, phase: 'PrepareDisks' });
    }
    if (error instanceof DisksLost) {
      const { disk, message } = error;
      work.deps.log.error({ id: work.instance.id, disk }, 'a disk of an instance is gone from its pool');
      return fail(work, failPermanently(work.instance, 'DisksLost', message));
    }
    if (error instanceof PortsUsedUp) return retryLater(work, 'PortTaken', error.message);
    if (error instanceof EngineFault) return afterFault(work, error);
    throw error;
  }
}

/** Seen from here on in the timeline; it is written with what is written next. */
function enterStage(work: ReconcileContext, stage: StageName): void {
  const { instance, deps } = work;
  work.instance = { ...instance, operation: beginStage(instance.operation, stage, deps.now()) };
}

/** Asks the engine when it is the owner's turn. */
async function callEnsure(work: ReconcileContext, spec: EngineSpec): Promise<void> {
  const { deps, drivers, held, instance } = work;
  const ensure = () => drivers.engine.ensure(spec, callDeadline(work));
  work.justSeen = await deps.engineSemaphore(drivers).run(ensure, { owner: instance.ownerId, signal: held.signal });
}

/** Its own, and that of its Docker. */
async function ensureImages(work: ReconcileContext, show: Partial<Observed>): Promise<void> {
  const own = await imageRequestOf(work.instance, work.drivers, work.deps.credentialsFor).catch(asImageFault);
  if (own.ownerId === undefined || !(await hasRun(work))) await ensureImage(work, show, own);
  const daemonImage = dockerImage(work);
  if (daemonImage) await ensureImage(work, show, daemonImage);
}

function dockerImage({ instance, drivers }: ReconcileContext): ImageRequest | null {
  const ref = drivers.engine.dockerImageRef;
  return instance.spec.enableDocker && ref !== undefined ? { ref } : null;
}

async function ensureImage(work: ReconcileContext, show: Partial<Observed>, image: ImageRequest): Promise<void> {
  const { deps, drivers, held } = work;
  const reporter = makeInstanceProgressReporter(work, () => ({
    ...show,
    status: nextStatus(work.instance.observed.status, 'pull'),
    phase: 'DownloadImage',
  }));
  let last: Progress | null = null;
  // A registry may keep silent for as long as the deadline is: who waits is to see for what.
  let telling: Promise<unknown> = Promise.resolve();
  let heard = false;
  const onProgress: typeof reporter.onProgress = (progress) => {
    heard = true;
    reporter.onProgress(progress);
  };
  const sayNothing = deps.time.after(SILENCE_MS, () => {
    if (heard) return;
    const observed = { ...show, phase: 'DownloadImage', message: 'waits for the first bytes of the image' } as const;
    telling = writeObservation(work, { observed }).catch(() => {});
  });
  const { imageDeadlineMs } = deps.limits;
  const fromMs = Math.max(work.instance.requestedAtMs, work.instance.observed.countedFromMs);
  const leftMs = Math.max(fromMs + imageDeadlineMs - deps.now(), imageDeadlineMs / LEAST_SHARE_OF_A_TRY);
  const overdue = new AbortController();
  // Why a try before this one failed says more than that this one took too long.
  const { diagnosisMessage: before } = work.instance.observed;
  const failedBefore = before === '' ? '' : `; before that: ${before}`;
  const callOff = deps.time.after(leftMs, () => {
    const text = `the image was not there after ${Math.round((deps.now() - fromMs) / 1000)} s${failedBefore}`;
    overdue.abort(new ImageFault(new EngineFault('unreachable', text, { retry: false })));
  });
  try {
    const signal = AbortSignal.any([held.signal, overdue.signal]);
    await deps.imagePulls.ensure(drivers.engine, image, onProgress, signal);
  } catch (error) {
    if (!(error instanceof EngineFault) || error instanceof ImageFault) throw error;
    asImageFault(withCredentialAdvice(error, image));
  } finally {
    callOff();
    sayNothing();
    await telling;
    last = await reporter.finish();
  }
  // The timeline says how much it was in the end, not what was written a second before.
  if (last)
    work.instance = { ...work.instance, operation: beginStage(work.instance.operation, 'Image', deps.now(), last) };
}

/** Its container is there with a root disk: it starts from that, and nobody has to give it anything. */
async function hasRun(work: ReconcileContext): Promise<boolean> {
  const { drivers, instance } = work;
  if (!instance.everEnsured) return false;
  const seen = (await drivers.engine.observe([instance.id], callDeadline(work))).get(instance.id);
  return seen?.kind === 'present' && seen.startedAtMs > 0;
}

function asImageFault(error: unknown): never {
  throw error instanceof EngineFault ? new ImageFault(error, { retry: true }) : error;
}

/** A fault of the image, told apart from one of the container: until its deadline all of them are tried again (docs/interface.md §10). */
class ImageFault extends EngineFault {
  constructor(fault: EngineFault, { retry } = { retry: fault.retry }) {
    super(fault.kind, fault.message, { retry, reason: fault.reason, cause: fault.cause });
  }
}

async function afterFault(work: ReconcileContext, fault: EngineFault): Promise<NextReconcile> {
  const { deps, instance, held } = work;
  // A call that this pass gave up itself says nothing about the engine.
  held.signal.throwIfAborted();
  deps.log.warn({ id: instance.id, kind: fault.kind, err: fault }, 'the engine could not do a step');
  // Of a pull, the registry may be away as well as the engine. Of all else it is the engine, and what came of the call is unknown.
  const asking = { engine: work.drivers.engine, time: deps.time, signal: held.signal };
  if (fault.kind === 'unreachable' && !(fault instanceof ImageFault && (await engineAnswers(asking)))) {
    await writeObservation(work, { observed: diagnosisFields('EngineUnreachable', fault.message) });
    return deps.limits.engineRetryMs;
  }
  if (fault instanceof ImageFault) {
    // A wish may be old when its image is missing for the first time, because the engine lost it: so it is tried a few times at least.
    const fromMs = Math.max(instance.requestedAtMs, instance.observed.countedFromMs);
    const late = deps.now() - fromMs > deps.limits.imageDeadlineMs && instance.attempts >= deps.limits.maxAttempts;
    const reason = diagnosisOf(fault, 'ImageFailed');
    if (late || !fault.retry) return fail(work, failPermanently(asStarting(instance), reason, fault.message));
    const attempts = instance.attempts + 1;
    const status = nextStatus(instance.observed.status, 'imageFails');
    const why = diagnosisFields(fault.reason === 'diskFull' ? 'DiskFull' : 'BackOff', fault.message);
    await writeObservation(work, {
      attempts,
      observed: { status, phase: 'DownloadImage', message: '', progress: null, ...why },
    });
    return backOff(attempts, work);
  }
  if (fault.takenNodePort !== undefined) return changeNodePort(work, fault.takenNodePort, fault.message);
  if (fault.reason === 'portTaken') return awaitNodePort(work, fault.message);
  // The container can go back to wanting its image, for instance when somebody removed it from the engine meanwhile.
  if (fault.retry || fault.kind === 'not_found')
    return retryLater(
      work,
      fault.kind === 'not_found' ? 'BackOff' : diagnosisOf(fault, 'EngineRejected'),
      fault.message,
    );
  return fail(work, failPermanently(instance, diagnosisOf(fault, 'EngineRejected'), fault.message));
}

/** An image that could not be had in time is a start that failed, also of one that was still Initializing (docs/interface.md §10). */
const asStarting = (instance: Instance): Instance => ({
  ...instance,
  observed: { ...instance.observed, status: nextStatus(instance.observed.status, 'imageFails') },
});

/** What the owner is told of what the engine can tell for certain. */
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
  work: ReconcileContext,
  diagnosis: Observed['diagnosis'],
  text: string,
  show: Partial<Observed> = {},
): Promise<NextReconcile> {
  const { limits } = work.deps;
  const attempts = work.instance.attempts + 1;
  if (attempts > limits.maxAttempts) return fail(work, failPermanently(work.instance, diagnosis, text));
  await writeObservation(work, { attempts, observed: { ...show, ...diagnosisFields(diagnosis, text) } });
  return backOff(attempts, work);
}

/** Writes down that the engine is about to be asked, with the node ports it is asked for. */
async function allotPorts(work: ReconcileContext, show: Partial<Observed>): Promise<void> {
  const { instance, drivers, deps } = work;
  const observed = {
    ...instance.observed,
    ...show,
    phase: 'CreateContainer',
    message: '',
    sshFront: false,
    ...diagnosisFields('', ''),
  } as const;
  work.instance = work.written = await deps.store.write(async (tx) => {
    const nodePorts = await allotNodePorts(tx, drivers, instance, deps.random);
    const allotted = { ...instance, nodePorts, everEnsured: true, mustHalt: false, observed };
    const disks = ownDisks(instance, drivers.sharedDiskGB);
    return writeInTransaction(tx, work, allotted, { alsoWrite: () => markProvisioned(tx, disks, true) });
  });
}

/** An instance that has run keeps its node ports. Who has one may go, so the start is tried until its deadline, however often. */
async function awaitNodePort(work: ReconcileContext, text: string): Promise<NextReconcile> {
  const { instance, deps } = work;
  // Another fault is given its tries, too.
  const attempts = Math.min(instance.attempts + 1, deps.limits.maxAttempts - 1);
  await writeObservation(work, { attempts, observed: diagnosisFields('PortTaken', text) });
  return backOff(attempts, work);
}

/** Another program of the host has the port: it is given up for another one. Where there is none left it stays, as its taker may go. */
async function changeNodePort(work: ReconcileContext, taken: number, text: string): Promise<NextReconcile> {
  const { instance, drivers, deps } = work;
  const attempts = instance.attempts + 1;
  if (attempts > deps.limits.maxAttempts) return fail(work, failPermanently(instance, 'PortTaken', text));
  const wanted = instance.nodePorts.map((one) => (one.nodePort === taken ? { ...one, nodePort: 0 } : one));
  const observed = { ...instance.observed, ...diagnosisFields('PortTaken', text) };
  try {
    work.instance = work.written = await deps.store.write(async (tx) => {
      await releaseNodePort(tx, instance.id, taken);
      const nodePorts = await allotNodePorts(tx, drivers, { ...instance, nodePorts: wanted }, deps.random, taken);
      return writeInTransaction(tx, work, { ...instance, attempts, nodePorts, observed });
    });
  } catch (error) {
    if (!(error instanceof PortsUsedUp)) throw error;
    return retryLater(work, 'PortTaken', text);
  }
  return attempts === 1 ? 'again' : backOff(attempts, work);
}

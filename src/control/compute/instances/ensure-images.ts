/** Makes the images of an instance present: its own, and the Docker sidecar's. */
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { nextStatus } from '../../../domain/compute/instance-states.ts';
import { imageRefOf, type Instance, type Observed } from '../../../domain/compute/instance.ts';
import { beginStage, type Progress } from '../../../domain/compute/operation.ts';
import type { RegistryCredentials } from '../../../engines/contract.ts';
import {
  callDeadline,
  withInstance,
  writeObservation,
  type InstanceState,
  type ReconcileContext,
} from './reconcile-context.ts';
import { isLocalRef, isPinned, registryServerOf } from '../../../domain/regions/image-ref.ts';
import { grantedDigests } from '../../../store/tables/image-facts.ts';
import {
  type ImageRequest,
  makeInstanceProgressReporter,
  withCredentialAdvice,
  type EnsuredImage,
} from '../../regions/ports.ts';
import { rootDiskFacts, type RegionDrivers } from '../../kernel/ports.ts';

/** Least share of the image deadline for each pull: an old request may start with one. */
const LEAST_PULL_SHARE = 1 / 10;
const SILENCE_MS = 1_000;

/** Fault of the image, retried until the image deadline (docs/interface.md §10). */
export class ImageFault extends EngineFault {
  constructor(fault: EngineFault, { retry } = { retry: fault.retry }) {
    super(fault.kind, fault.message, { retry, reason: fault.reason, cause: fault.cause });
  }
}

/** The pull has held capacity for long enough; it goes on without. */
export class PullHeld extends ImageFault {
  constructor() {
    const text = 'the image is still being downloaded; the instance joins the capacity queue when it is there';
    super(new EngineFault('unreachable', text, { retry: true }));
  }
}

interface ImageResult {
  state: InstanceState;
  /** Returned, not thrown: progress has moved the state on. */
  fault: ImageFault | null;
  ensured: EnsuredImage | null;
}

interface ImagesResult extends ImageResult {
  /** Login of the account for the instance's image. */
  credentials: RegistryCredentials | undefined;
}

export async function ensureImages(
  context: ReconcileContext,
  state: InstanceState,
  show: Partial<Observed>,
): Promise<ImagesResult> {
  const { instance } = state;
  const own = await imageRequestOf(instance, context).catch(throwAsImageFault);
  let result: ImageResult = { state, fault: null, ensured: null };
  const isNew = instance.rootDisk !== 'kept' && (own.follows === undefined || !(await hasRun(context, instance)));
  // A container that is made anew, for another type, needs the image's command.
  if (isNew || instance.spec.runImageCommand) result = await ensureImage(context, state, show, own);
  const docker = dockerImageOf(context, instance);
  const { ensured } = result;
  if (docker && result.fault === null) result = await ensureImage(context, result.state, show, docker);
  return { ...result, ensured, credentials: own.credentials };
}

export function dockerImageOf({ drivers }: ReconcileContext, { spec }: Instance): ImageRequest | null {
  const ref = drivers.engine.dockerImageRef;
  return spec.enableDocker && ref !== undefined ? { ref } : null;
}

async function ensureImage(
  context: ReconcileContext,
  start: InstanceState,
  show: Partial<Observed>,
  image: ImageRequest,
): Promise<ImageResult> {
  const { deps, drivers } = context;
  let state = start;
  const phase = 'DownloadImage';
  const reporter = makeInstanceProgressReporter(deps.time.elapsed, async (progress) => {
    const status = nextStatus(state.instance.observed.status, 'pull');
    state = await writeObservation(context, state, { observed: { ...show, status, phase, ...progress } });
  });
  let reporting: Promise<unknown> = Promise.resolve();
  let hasProgress = false;
  const onProgress: typeof reporter.onProgress = (progress) => {
    hasProgress = true;
    reporter.onProgress(progress);
  };
  const writeWaiting = async (): Promise<void> => {
    const observed = { ...show, phase, message: 'waiting for the first bytes of the image' } as const;
    state = await writeObservation(context, state, { observed });
  };
  // A registry may stay silent up to the deadline: show what the instance waits for.
  const cancelWaiting = deps.time.after(SILENCE_MS, () => {
    if (!hasProgress) reporting = writeWaiting().catch(() => {});
  });
  const overdue = new AbortController();
  const cancelOverdue = abortAtDeadline(context, start.instance, overdue);
  const cancelHold = start.holdsCapacity ? endHold(context, start.instance, image, overdue) : () => {};
  let last: Progress | null = null;
  let fault: ImageFault | null = null;
  let ensured: EnsuredImage | null = null;
  try {
    const by = AbortSignal.any([context.signal, overdue.signal]);
    ensured = await deps.imagePulls.ensure(drivers.engine, image, onProgress, by);
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error;
    fault = error instanceof ImageFault ? error : retryable(withCredentialAdvice(error, image));
  } finally {
    cancelOverdue();
    cancelHold();
    cancelWaiting();
    await reporting;
    last = await reporter.finish();
  }
  if (fault === null && last) {
    // The last progress, not the last written one.
    const operation = beginStage(state.instance.operation, 'Image', deps.time.now(), last);
    state = withInstance(state, { operation });
  }
  return { state, fault, ensured };
}

function abortAtDeadline({ deps }: ReconcileContext, instance: Instance, overdue: AbortController): () => void {
  const { imageDeadlineMs } = deps.limits;
  const { countedFromMs, diagnosisMessage } = instance.observed;
  const fromMs = Math.max(instance.requestedAtMs, countedFromMs);
  const leftMs = Math.max(fromMs + imageDeadlineMs - deps.time.now(), imageDeadlineMs * LEAST_PULL_SHARE);
  // The failure of an earlier pull says more than the timeout of this one.
  const failedBefore = diagnosisMessage === '' ? '' : `; the last failure was: ${diagnosisMessage}`;
  return deps.time.after(leftMs, () => {
    const text = `the image was not ready after ${Math.round((deps.time.now() - fromMs) / 1000)} s${failedBefore}`;
    overdue.abort(new ImageFault(new EngineFault('unreachable', text, { retry: false })));
  });
}

/** Keeps the pull alive until the next step of the same reconcile waits for it. */
const HANDOVER_MS = 10_000;
const SHORT_HOLD_MS = 10_000;

function endHold(
  { deps, drivers, signal }: ReconcileContext,
  { requestedAtMs, attempts, observed }: Instance,
  image: ImageRequest,
  overdue: AbortController,
): () => void {
  const fromMs = Math.max(requestedAtMs, observed.countedFromMs);
  const leftMs = attempts > 0 ? SHORT_HOLD_MS : Math.max(0, fromMs + deps.limits.pullHoldMs - deps.time.now());
  return deps.time.after(leftMs, () => {
    const handover = AbortSignal.any([signal, deps.time.deadline(HANDOVER_MS)]);
    deps.imagePulls.ensure(drivers.engine, image, () => {}, handover).catch(() => {});
    overdue.abort(new PullHeld());
  });
}

/** True when the container has a root disk: it starts from that, without the image. */
async function hasRun(context: ReconcileContext, { id, everEnsured }: Instance): Promise<boolean> {
  if (!everEnsured || !rootDiskFacts(context.drivers).keepsRootDisk) return false;
  const observation = (await context.drivers.engine.observe([id], callDeadline(context))).get(id);
  return observation?.kind === 'present' && observation.startedAtMs > 0;
}

const retryable = (fault: EngineFault): ImageFault => new ImageFault(fault, { retry: true });

function throwAsImageFault(error: unknown): never {
  throw error instanceof EngineFault ? retryable(error) : error;
}

/** True for root disks in the engine's store or the operator's registry, which need no account. */
const isRootDisk = ({ archivePrefix, savedPrefix }: RegionDrivers, ref: string): boolean =>
  ref.startsWith(`${archivePrefix}/`) || ref.startsWith(`${savedPrefix}/`);

/**
 * The engine may have a private image because another account pulled it, so each container asks the
 * registry with its own account's credentials.
 */
async function imageRequestOf(
  instance: Pick<Instance, 'archive' | 'spec' | 'ownerId'>,
  { drivers, deps }: Pick<ReconcileContext, 'drivers' | 'deps'>,
): Promise<ImageRequest> {
  const ref = imageRefOf(instance);
  if (isRootDisk(drivers, ref)) return { ref, credentials: drivers.archiveCredentials };
  if (instance.archive !== null || isLocalRef(ref)) return { ref };
  if (instance.spec.image.isPublic) return isPinned(ref) ? { ref } : { ref, follows: 'ifReachable' };
  const { ownerId } = instance;
  const granted = await grantedDigests(deps.store.read, ownerId, ref);
  const credentials = await deps.credentialsFor(ownerId, registryServerOf(ref));
  return { ref, ownerId, credentials, granted, follows: 'ifReachable' };
}

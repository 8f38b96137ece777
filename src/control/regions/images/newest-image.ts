/** Downloads the registry's newest image for a launch (decision 16). */
import { raceAbort } from '../../../async/abort.ts';
import { EngineFault, isEngineAway } from '../../../domain/regions/engine-fault.ts';
import type { ImageFacts } from '../../../domain/regions/image-facts.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import type { Engine, OnProgress, RegistryCredentials } from '../../../engines/contract.ts';
import type { TaskDeps } from '../../kernel/ports.ts';

export interface ImageRequest {
  ref: string;
  /** Owning account; its registry is asked even if the engine has the image. */
  ownerId?: string;
  credentials?: RegistryCredentials | undefined;
  /** Request for a newer image; by `ifReachable` the host's image may stand in. */
  follows?: 'ifReachable' | 'always' | undefined;
  granted?: readonly string[] | undefined;
}

export interface EnsuredImage {
  facts: ImageFacts | null;
  isOfRegistry: boolean;
  note: string;
}

export interface NewestImageDeps {
  time: Pick<TaskDeps['time'], 'after'>;
  /** Longest wait for the first bytes where an image of the host can stand in. */
  askMs: number;
}

export async function ensureNewest(
  { time, askMs }: NewestImageDeps,
  engine: Engine,
  image: ImageRequest,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<EnsuredImage> {
  const { ref, ownerId, credentials, follows = 'never' } = image;
  const describe = (): Promise<ImageFacts | null> =>
    engine.describeImage(ref, signal).catch((error: unknown) => {
      if (error instanceof EngineFault) return null;
      throw error;
    });
  const present = follows === 'ifReachable' ? await describe() : null;
  const isOwn = ownerId !== undefined;
  // Built or loaded on the host.
  if (present !== null && !isOwn && present.digests.length === 0)
    return { facts: present, isOfRegistry: false, note: '' };
  const askRegistry = isOwn || follows === 'always' || present !== null;
  const mayStandIn = present !== null && (!isOwn || isGranted(image, present));
  const overdue = new AbortController();
  let cancel = (): void => {};
  if (mayStandIn) cancel = time.after(askMs, () => overdue.abort(silentFault(askMs)));
  try {
    const report: OnProgress = (progress) => {
      cancel();
      onProgress(progress);
    };
    const by = AbortSignal.any([signal, overdue.signal]);
    await raceAbort(engine.ensureImage(ref, report, by, credentials, { askRegistry }), by);
  } catch (error) {
    const why = overdue.signal.aborted ? overdue.signal.reason : error;
    if (signal.aborted || !mayStandIn || !isOfRegistryAlone(why, isOwn)) throw error;
    const of = present.digests[0]?.slice(0, SHORT_DIGEST) ?? '';
    const note = `the registry gave no image now, so this is the one that the host has, ${of}: ${errorText(why).replace(`${ref}: `, '')}`;
    return { facts: present, isOfRegistry: false, note };
  } finally {
    cancel();
  }
  return { facts: await describe(), isOfRegistry: askRegistry, note: '' };
}

const SHORT_DIGEST = 'sha256:'.length + 12;

const silentFault = (askMs: number): EngineFault =>
  new EngineFault('unreachable', `the registry did not answer within ${askMs / 1_000} s`, {
    retry: true,
    reason: 'registryAway',
  });

const isGranted = ({ granted = [] }: ImageRequest, { digests }: ImageFacts): boolean =>
  digests.some((digest) => granted.includes(digest));

function isOfRegistryAlone(error: unknown, isOwn: boolean): error is EngineFault {
  if (!(error instanceof EngineFault) || isEngineAway(error) || error.reason === undefined) return false;
  return !isOwn || error.reason === 'registryAway';
}

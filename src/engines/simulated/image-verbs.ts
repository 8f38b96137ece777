/** Verbs of images: pull, push, removal and save. */
import { raceAbort } from '../../async/abort.ts';
import type { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { Engine, ImageProgress, RegistryCredentials } from '../contract.ts';
import { brokenOff, type EngineContext } from './context.ts';
import { aborted, simulatedFault } from './injected-faults.ts';
import type { SimulatedHost } from './host.ts';
import { digestOf, factsOf, pulledImage } from './images.ts';

type ImageVerbs = Pick<
  Engine,
  'ensureImage' | 'checkImage' | 'describeImage' | 'pushImage' | 'removeImage' | 'saveImage'
>;

export function imageVerbs(context: EngineContext): ImageVerbs {
  const { host, installation, capabilities, call, lockImage, lockInstance, pass } = context;

  const transferOf = (
    ref: string,
    onProgress: (progress: ImageProgress) => void,
    signal: AbortSignal,
    credentials: RegistryCredentials | undefined,
  ): Transfer => ({ host, ref, onProgress, credentials, pass: (ms) => pass(ms, signal) });

  return {
    ensureImage: (ref, onProgress, signal, credentials, options) =>
      call({ verb: 'ensureImage', about: ref, signal, lie: () => {} }, () =>
        pull(transferOf(ref, onProgress, signal, credentials), options),
      ),
    checkImage: (ref, signal, credentials) =>
      call({ verb: 'checkImage', about: ref, signal, lie: () => ({ digest: '' }) }, async () => {
        const { facts } = offeredImage(host, ref, credentials);
        return { digest: facts?.digests?.[0] ?? digestOf(ref) };
      }),
    describeImage: (ref, signal) =>
      call({ verb: 'describeImage', about: ref, signal, lie: () => null }, async () => {
        const image = host.image(ref);
        return image === undefined ? null : factsOf(ref, image);
      }),
    pushImage: (ref, onProgress, signal, credentials) =>
      call({ verb: 'pushImage', about: ref, signal, lie: () => {} }, () => {
        if (!capabilities.saveImage) throw simulatedFault('rejected', 'this engine pushes no images');
        return lockImage(ref, signal, () => push(transferOf(ref, onProgress, signal, credentials)));
      }),
    removeImage: (ref, signal) =>
      call({ verb: 'removeImage', about: ref, signal, lie: () => {} }, () =>
        lockImage(ref, signal, () => removeImage(host, installation, ref)),
      ),
    saveImage: (id, ref, signal) =>
      call({ verb: 'saveImage', about: id, signal, lie: () => ({ sizeBytes: 0 }) }, () => {
        const saving = lockImage(ref, signal, () => lockInstance(id, signal, () => save(context, id, ref)));
        // Continues after its caller aborts, as a real engine copies on.
        return raceAbort(saving, signal, aborted);
      }),
  };
}

const fileBytes = 4096;
const transferSteps = 8;

interface Transfer {
  host: SimulatedHost;
  ref: string;
  onProgress: (progress: ImageProgress) => void;
  credentials: RegistryCredentials | undefined;
  /** Lets time pass; rejects on abort or if the host went away. */
  pass: (ms: number) => Promise<void>;
}

async function pull(transfer: Transfer, { askRegistry } = { askRegistry: false }): Promise<void> {
  const { host, ref, credentials } = transfer;
  if (host.image(ref) !== undefined && !askRegistry) return;
  const image = offeredImage(host, ref, credentials);
  const isThere = (): boolean => {
    const there = host.image(ref);
    return there !== undefined && factsOf(ref, there).digests[0] === factsOf(ref, image).digests[0];
  };
  // Another call may finish first.
  await move(transfer, `Downloading ${ref}`, image.bytes, isThere);
  if (!isThere()) host.addImage(ref, image);
}

function offeredImage(host: SimulatedHost, ref: string, credentials: RegistryCredentials | undefined) {
  const source = host.images(ref, credentials);
  const pushed = host.pushed(ref);
  if (source.kind === 'denied' || source.kind === 'unreachable') throw refusal(source.kind, ref);
  const image = pushed ?? (source.kind === 'found' ? pulledImage(source.bytes, source.facts) : undefined);
  if (image !== undefined) return image;
  throw simulatedFault('not_found', `the registry has no image ${ref}; check its name and tag`, {
    reason: 'imageMissing',
  });
}

async function push(transfer: Transfer): Promise<void> {
  const { host, ref, credentials } = transfer;
  const image = host.image(ref);
  if (image === undefined) {
    throw simulatedFault('not_found', `no such image on the host: ${ref}; save or pull it first`, {
      reason: 'imageMissing',
    });
  }
  const { kind } = host.images(ref, credentials);
  if (kind === 'denied' || kind === 'unreachable') throw refusal(kind, ref);
  await move(transfer, `Uploading ${ref}`, image.bytes, () => false);
  host.addPushed(ref, image);
}

async function move({ host, onProgress, pass }: Transfer, text: string, total: number, isDone: () => boolean) {
  const stepMs = host.spanMs(host.times.pull) / transferSteps;
  for (let step = 0; step < transferSteps && !isDone(); step++) {
    onProgress({ text, done: Math.floor((total * step) / transferSteps), total, unit: 'bytes' });
    await pass(stepMs);
  }
  onProgress({ text, done: total, total, unit: 'bytes' });
}

const refusal = (kind: 'denied' | 'unreachable', ref: string): EngineFault =>
  kind === 'denied'
    ? simulatedFault('denied', `the registry needs other credentials for ${ref}`, { reason: 'imageDenied' })
    : simulatedFault('unreachable', `the registry of ${ref} does not answer`, { reason: 'registryAway' });

function checkSavable(host: SimulatedHost, installation: string, ref: string): void {
  const there = host.image(ref);
  if (there === undefined || there.saved?.installation === installation) return;
  const text = `an image named ${ref} is on the host and was not saved by this installation; choose another name`;
  throw simulatedFault('rejected', text, { reason: 'nameTaken' });
}

async function save(context: EngineContext, id: InstanceId, ref: string): Promise<{ sizeBytes: number }> {
  const { host, installation, capabilities, find, pass, stopped } = context;
  if (!capabilities.saveImage) throw simulatedFault('rejected', 'this engine cannot save images');
  const container = find(id);
  if (container === undefined) throw simulatedFault('not_found', `${id} has no root disk on this engine`);
  checkSavable(host, installation, ref);
  await pass(host.times.save, stopped);
  if (find(id) !== container) throw brokenOff();
  checkSavable(host, installation, ref);
  const { spec, touchedFiles } = container;
  const base = host.image(spec.imageRef) ?? pulledImage();
  const added = [...touchedFiles].filter((file) => !base.rootDisk.includes(file)).length;
  const bytes = base.bytes + fileBytes * added;
  const saved = { installation, id, ownerId: spec.ownerId, createdAtMs: host.clock.now() };
  host.addImage(ref, { rootDisk: [...touchedFiles], bytes, saved });
  return { sizeBytes: bytes };
}

/** `id` limits the removal to an image saved from that instance. */
export function removeImage(host: SimulatedHost, installation: string, ref: string, id?: string): void {
  const image = host.image(ref);
  if (image === undefined) return;
  if (image.saved?.installation !== installation || (id !== undefined && image.saved.id !== id)) {
    throw simulatedFault('rejected', `${ref} was not saved by this installation, so Berth does not remove it`);
  }
  if (host.usesImage(ref)) {
    throw simulatedFault('busy', `${ref} is used by an instance; terminate the instance, then remove the image`);
  }
  host.dropImage(ref);
}

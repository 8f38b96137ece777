/** Verbs of images: pull, push, removal and save. */
import type { InstanceId } from '../../domain/ids.ts';
import type { Engine, ImageProgress, RegistryCredentials } from '../contract.ts';
import { brokenOff } from './calls.ts';
import type { EngineContext } from './context.ts';
import { raceAbort, simulatedFault } from './faults.ts';
import * as images from './images.ts';

type ImageVerbs = Pick<Engine, 'ensureImage' | 'pushImage' | 'removeImage' | 'saveImage'>;

export function imageVerbs(context: EngineContext): ImageVerbs {
  const { host, installation, calls, lockImage, lockInstance, pass } = context;
  const { call } = calls;

  const transferOf = (
    ref: string,
    onProgress: (progress: ImageProgress) => void,
    signal: AbortSignal,
    credentials: RegistryCredentials | undefined,
  ) => ({ host, ref, onProgress, credentials, pass: (ms: number) => pass(ms, signal) });

  /** Continues after its caller aborts, as a real engine copies on. */
  const detached = <T>(id: InstanceId, ref: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> =>
    raceAbort(
      signal,
      lockImage(ref, signal, () => lockInstance(id, signal, work)),
    );

  return {
    ensureImage: (ref, onProgress, signal, credentials, options) =>
      call({
        verb: 'ensureImage',
        about: ref,
        signal,
        work: () => images.pull({ ...transferOf(ref, onProgress, signal, credentials), ...options }),
        lie: () => {},
      }),
    pushImage: (ref, onProgress, signal, credentials) =>
      call({
        verb: 'pushImage',
        about: ref,
        signal,
        work: () => lockImage(ref, signal, () => images.push(transferOf(ref, onProgress, signal, credentials))),
        lie: () => {},
      }),
    removeImage: (ref, signal) =>
      call({
        verb: 'removeImage',
        about: ref,
        signal,
        work: () => lockImage(ref, signal, () => images.remove(host, installation, ref)),
        lie: () => {},
      }),
    saveImage: (id, ref, signal) =>
      call({
        verb: 'saveImage',
        about: id,
        signal,
        work: () => detached(id, ref, signal, () => save(context, id, ref)),
        lie: () => ({ sizeBytes: 0 }),
      }),
  };
}

async function save(context: EngineContext, id: InstanceId, ref: string): Promise<{ sizeBytes: number }> {
  const { host, installation, capabilities, find, pass, stopped } = context;
  if (!capabilities.saveImage) throw simulatedFault('rejected', 'this engine can not save images');
  const container = find(id);
  if (container === undefined) throw simulatedFault('not_found', `${id} has no root disk here`);
  images.checkSavable(host, installation, ref);
  await pass(host.times.save, stopped);
  if (find(id) !== container) throw brokenOff();
  return images.save(host, container, ref);
}

/**
 * # Keeping a root disk as an image
 *
 * A commit of the container. Into the image's settings the engine mixes the container's, so those of the image that the container
 * was made from are given with it: what is said there wins, what is empty there is filled from the container. What gets through
 * is as good as nothing: user 0, the usual stop signal, no health check, HOME=/root, and the ports that were published, which
 * an image only tells. The mounts, control files among them, are no part of a root disk.
 *
 * Image and name are made in one step by the engine, which goes on with it when the caller leaves. So it is never called off
 * half-way, and holds the locks of name and instance until it is done: whoever asks again waits, and saves again; whoever removes
 * what has that name waits too, and finds it.
 */
import { abortFault } from '../client/faults.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { InstanceId } from '../../../domain/ids.ts';
import { MAX_COPY_MS } from '../../../domain/instance-states.ts';
import { labels } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import type { Containers } from '../container/containers.ts';
import { gpuLabel } from '../container/gpus.ts';
import { isOwnImage, type ImageInfo, type Images } from './images.ts';
import { listedRef, splitRef } from './refs.ts';

const SAVES_AT_ONCE = 2;

const commitAnswer = z.object({ Id: z.string() });

export type SaveImage = (id: InstanceId, ref: string, signal: AbortSignal) => Promise<{ sizeBytes: number }>;

export function makeSaves(options: {
  client: Client;
  installation: string;
  containers: Containers;
  images: Images;
}): SaveImage {
  const { client, installation, containers, images } = options;
  const { docker, call } = client;
  const semaphore = makeSemaphore(SAVES_AT_ONCE, { abortError: abortFault });

  async function save(id: InstanceId, ref: string, signal: AbortSignal): Promise<{ sizeBytes: number }> {
    const container = await containers.get(id, signal);
    refuseVolumes(container);
    const previous = await images.inspect(ref, signal);
    if (previous !== null && !isOwnImage(installation, { ...previous, Labels: previous.Config?.Labels }, ref)) {
      const text = `an image called ${ref} is on the host and was not saved by this installation; choose another name`;
      throw new EngineFault('rejected', text, { retry: false, reason: 'nameTaken' });
    }
    const base = await images.inspect(container.Image, signal);
    const { repository, tag } = splitRef(ref);
    const request = {
      _query: { container: container.Id, repo: repository, tag, pause: true },
      _body: imageSettings({ container, base, installation, ref: listedRef(ref) }),
      abortSignal: signal,
    };
    const answer = await containers.whilePaused(id, () =>
      call(signal, () => docker.getContainer(container.Id).commit(request)),
    );
    const made = await images.inspect(commitAnswer.parse(answer).Id, signal);
    if (made === null)
      throw new EngineFault('busy', `${ref} was removed while it was saved; save it again`, { retry: true });
    if (previous !== null && previous.Id !== made.Id) await images.removeNameless(previous.Id, signal);
    return { sizeBytes: made.Size };
  }

  const saveWithin = (id: InstanceId, ref: string): Promise<{ sizeBytes: number }> =>
    save(id, ref, AbortSignal.timeout(MAX_COPY_MS));
  return (id, ref, signal) =>
    call(signal, () =>
      images.exclusively(ref, signal, () =>
        containers.exclusively(id, signal, () => semaphore.run(() => saveWithin(id, ref), { signal })),
      ),
    );
}

/** What the image that it came from says to be kept outside of the root disk would be missing, and nobody would know. */
function refuseVolumes({ Mounts }: ContainerInspectInfo): void {
  const volumes = Mounts.filter(({ Type }) => Type === 'volume').map(({ Destination }) => Destination);
  if (volumes.length === 0) return;
  const text = `its image keeps ${volumes.join(', ')} outside of the root disk, which a saved image would lack; launch from an image without VOLUME to save it`;
  throw new EngineFault('rejected', text, { retry: false });
}

function imageSettings(of: {
  container: ContainerInspectInfo;
  base: ImageInfo | null;
  installation: string;
  ref: string;
}): Record<string, unknown> {
  const settings = of.base?.Config;
  const source = of.container.Config.Labels;
  return {
    ...settings,
    // Empty is not absent here: what is absent is filled from the container.
    Entrypoint: settings?.['Entrypoint'] ?? [],
    Cmd: settings?.['Cmd'] ?? [],
    WorkingDir: settings?.['WorkingDir'] || '/',
    Labels: {
      ...settings?.Labels,
      [labels.installation]: of.installation,
      [labels.kind]: 'image',
      [labels.id]: source[labels.id],
      [labels.owner]: source[labels.owner],
      [labels.generation]: '0',
      [labels.imageRef]: of.ref,
      ...(source[gpuLabel] === undefined ? {} : { [gpuLabel]: '' }),
    },
  };
}

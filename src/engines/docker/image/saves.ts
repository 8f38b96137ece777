/**
 * # Saving a root disk as an image
 *
 * Commits the container, without mounts and so control files. The engine merges the container's
 * settings, so the commit passes the original image's: non-empty ones win. The rest is harmless:
 * user 0, the default stop signal, no health check, HOME=/root, exposed ports.
 *
 * The engine finishes a commit whose caller left. So a commit is never aborted, and holds the
 * mutexes of ref and instance to its end: a repeated save, or a removal of the ref, waits.
 */
import { abortFault } from '../client/faults.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { InstanceId } from '../../../domain/ids.ts';
import { MAX_COPY_MS } from '../../../domain/instance-states.ts';
import type { Engine } from '../../contract.ts';
import { labels, labelsOf } from '../../labels.ts';
import type { DockerClient } from '../client/docker-client.ts';
import type { Containers } from '../container/containers.ts';
import { isOwnImage, type ImageInfo, type DockerImages } from './images.ts';
import { listedRef, splitRef } from './refs.ts';

const SAVES_AT_ONCE = 2;

const commitAnswer = z.object({ Id: z.string() });

export function makeSaves(options: {
  client: DockerClient;
  installation: string;
  containers: Containers;
  images: DockerImages;
}): Engine['saveImage'] {
  const { client, installation, containers, images } = options;
  const { docker, call } = client;
  const semaphore = makeSemaphore(SAVES_AT_ONCE, { abortError: abortFault });

  async function save(id: InstanceId, ref: string, signal: AbortSignal): Promise<{ sizeBytes: number }> {
    const container = await containers.get(id, signal);
    refuseVolumes(container);
    const previous = await images.inspect(ref, signal);
    if (previous !== null && !isOwnImage(installation, { ...previous, Labels: previous.Config?.Labels }, ref)) {
      const text = `an image named ${ref} is on the host and was not saved by this installation; choose another name`;
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
    const saved = await images.inspect(commitAnswer.parse(answer).Id, signal);
    if (saved === null)
      throw new EngineFault('busy', `${ref} was removed while it was saved; save the instance again`, { retry: true });
    if (previous !== null && previous.Id !== saved.Id) await images.removeNameless(previous.Id, signal);
    return { sizeBytes: saved.Size };
  }

  const saveWithin = (id: InstanceId, ref: string) => save(id, ref, AbortSignal.timeout(MAX_COPY_MS));
  return (id, ref, signal) =>
    call(signal, () =>
      images.exclusively(ref, signal, () =>
        containers.exclusively(id, signal, () => semaphore.run(() => saveWithin(id, ref), { signal })),
      ),
    );
}

/** Rejects images with VOLUMEs: their data is outside of the root disk, and would be missing. */
function refuseVolumes({ Mounts }: ContainerInspectInfo): void {
  const volumes = Mounts.filter(({ Type }) => Type === 'volume').map(({ Destination }) => Destination);
  if (volumes.length === 0) return;
  const text = `its image stores ${volumes.join(', ')} outside of the root disk, so a saved image would lack these files; only instances of images without VOLUME can be saved`;
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
    // Empty, not absent: the engine fills absent settings from the container.
    Entrypoint: settings?.['Entrypoint'] ?? [],
    Cmd: settings?.['Cmd'] ?? [],
    WorkingDir: settings?.['WorkingDir'] || '/',
    Labels: {
      ...settings?.Labels,
      ...labelsOf(of.installation, {
        kind: 'image',
        id: source[labels.id] ?? '',
        ownerId: source[labels.owner] ?? '',
        generation: 0,
        imageRef: of.ref,
      }),
    },
  };
}

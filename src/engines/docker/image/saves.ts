/**
 * # Saving a root disk as an image
 *
 * Commits the container, without mounts and so control files. The engine merges the container's
 * settings, so the commit passes the original image's: non-empty ones win. The rest is harmless:
 * user 0, the default stop signal, no health check, HOME=/root, exposed ports.
 *
 * Each commit adds a layer, and Docker creates no container from an image of 125. A root disk of
 * many layers is therefore exported and imported as one layer; a container of that image, which
 * never runs, is committed in its place.
 *
 * The engine finishes a commit whose caller left. So a commit is never aborted, and holds the
 * mutexes of ref and instance to its end: a repeated save, or a removal of the ref, waits.
 */
import { abortFault } from '../../../docker/faults.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import type { Container, ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { MAX_COPY_MS } from '../../../domain/compute/instance-states.ts';
import type { Engine } from '../../contract.ts';
import { labels, labelsOf } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { linesOf } from '../../../docker/streams.ts';
import type { Containers } from '../container/containers.ts';
import { isOwnImage, type ImageInfo, type DockerImages } from './images.ts';
import { listedRef, splitRef } from './refs.ts';

const SAVES_AT_ONCE = 2;
/** Far below 125: instances are launched from saved images, and saved in turn. */
const FLATTEN_FROM_LAYERS = 100;

const commitAnswer = z.object({ Id: z.string() });
const importAnswer = z.object({ status: z.string().exactOptional(), error: z.string().exactOptional() });

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
    const settings = imageSettings({ container, base, installation, ref: listedRef(ref) });
    const commit = (from: string): Promise<unknown> => {
      const _query = { container: from, repo: repository, tag, pause: true };
      return call(signal, () => docker.getContainer(from).commit({ _query, _body: settings, abortSignal: signal }));
    };
    const isDeep = (base?.RootFS?.Layers?.length ?? 0) >= FLATTEN_FROM_LAYERS;
    const answer = await containers.whilePaused(id, () =>
      isDeep ? withFlatCopy(container, ownLabels(settings.Labels), signal, commit) : commit(container.Id),
    );
    const saved = await images.inspect(commitAnswer.parse(answer).Id, signal);
    if (saved === null)
      throw new EngineFault('busy', `${ref} was removed while it was saved; save the instance again`, { retry: true });
    if (previous !== null && previous.Id !== saved.Id) await images.removeNameless(previous.Id, signal);
    return { sizeBytes: saved.Size };
  }

  /** Lends a container with the same root disk in one layer. */
  async function withFlatCopy<T>(
    { Id, Name, State }: ContainerInspectInfo,
    labels: Record<string, string>,
    signal: AbortSignal,
    use: (containerId: string) => Promise<T>,
  ): Promise<T> {
    const name = `${Name.replace(/^\//, '')}-flat`;
    // Left by a save that was killed.
    await call(signal, () => docker.getContainer(name).remove({ force: true, abortSignal: signal })).catch(() => {});
    const source = docker.getContainer(Id);
    const isRunning = State.Running && !State.Paused;
    if (isRunning) await call(signal, () => source.pause({ abortSignal: signal }));
    let imported: string;
    try {
      imported = await importFlat(source, labels, signal);
    } finally {
      if (isRunning) await call(signal, () => source.unpause({ abortSignal: signal }));
    }
    try {
      const request = { name, Image: imported, Entrypoint: ['/never'], NetworkDisabled: true, abortSignal: signal };
      const copy = await call(signal, () => docker.createContainer(request));
      try {
        return await use(copy.id);
      } finally {
        await call(signal, () => copy.remove({ force: true, abortSignal: signal }));
      }
    } finally {
      // Stays as the parent of the saved image.
      await images.removeNameless(imported, signal);
    }
  }

  /** The labels let the sweep find the image if the save is killed. */
  async function importFlat(source: Container, given: Record<string, string>, signal: AbortSignal): Promise<string> {
    const changes = `LABEL ${Object.entries(given)
      .map((pair) => pair.map((text) => JSON.stringify(text)).join('='))
      .join(' ')}`;
    const tar = await call(signal, () => source.export({ abortSignal: signal }));
    const progress = await call(signal, () => docker.importImage(tar, { changes, abortSignal: signal }));
    let last = '';
    for await (const line of linesOf(progress)) {
      const { status, error } = importAnswer.parse(JSON.parse(line));
      if (error !== undefined)
        throw new EngineFault('no_capacity', `the root disk could not be copied: ${error}`, { retry: true });
      last = status ?? last;
    }
    return last;
  }

  const saveWithin = (id: InstanceId, ref: string) => save(id, ref, AbortSignal.timeout(MAX_COPY_MS));
  return (id, ref, signal) =>
    call(signal, () =>
      images.exclusively(ref, signal, () =>
        containers.exclusively(id, signal, () => semaphore.run(() => saveWithin(id, ref), { signal })),
      ),
    );
}

const ownLabels = (all: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.values(labels).map((label) => [label, all[label] ?? '']));

/** Rejects images with VOLUMEs: their data is outside of the root disk, and would be missing. */
function refuseVolumes({ Mounts, HostConfig }: ContainerInspectInfo): void {
  // Disks and control files of an engine on another host.
  const ours = (HostConfig.Mounts ?? []).map(({ Target }) => Target);
  const volumes = Mounts.filter(({ Type, Destination }) => Type === 'volume' && !ours.includes(Destination)).map(
    ({ Destination }) => Destination,
  );
  if (volumes.length === 0) return;
  const text = `its image stores ${volumes.join(', ')} outside of the root disk, so a saved image would lack these files; only instances of images without VOLUME can be saved`;
  throw new EngineFault('rejected', text, { retry: false });
}

function imageSettings(saved: {
  container: ContainerInspectInfo;
  base: ImageInfo | null;
  installation: string;
  ref: string;
}): Record<string, unknown> & { Labels: Record<string, string> } {
  const settings = saved.base?.Config;
  const source = saved.container.Config.Labels;
  return {
    ...settings,
    // Empty, not absent: the engine fills absent settings from the container.
    Entrypoint: settings?.['Entrypoint'] ?? [],
    Cmd: settings?.['Cmd'] ?? [],
    WorkingDir: settings?.['WorkingDir'] || '/',
    Labels: {
      ...settings?.Labels,
      ...labelsOf(saved.installation, {
        kind: 'image',
        id: source[labels.id] ?? '',
        ownerId: source[labels.owner] ?? '',
        generation: 0,
        imageRef: saved.ref,
      }),
    },
  };
}

import { makeBoundedMap } from '../../../async/bounded-map.ts';
import { makeKeyedMutex } from '../../../async/mutex.ts';
import { z } from 'zod';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { Engine, OnProgress } from '../../contract.ts';
import { labels } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import type { Host } from '../client/host-facts.ts';
import { abortFault, faultOf, isImageGone, statusOf } from '../../../docker/faults.ts';
import { listedRef, refPath } from './refs.ts';
import { checkAccess, pull, push } from './transfers.ts';

export type BuildLocalImage = (ref: string, onProgress: OnProgress, signal: AbortSignal) => Promise<void>;

export const LOCAL_PREFIX = 'berth.local/';
const MAX_PRESENT = 1_000;

const inspectAnswer = z.object({
  Id: z.string(),
  RepoTags: z.array(z.string()).nullish(),
  Size: z.number(),
  Parent: z.string().nullish(),
  RootFS: z.object({ Layers: z.array(z.string()).nullish() }).nullish(),
  RepoDigests: z.array(z.string()).nullish(),
  Created: z.string().nullish(),
  Config: z.looseObject({ Labels: z.record(z.string(), z.string()).nullish() }).nullish(),
});
export type ImageInfo = z.infer<typeof inspectAnswer>;

export interface DockerImages {
  ensure: Engine['ensureImage'];
  check: Engine['checkImage'];
  push: Engine['pushImage'];
  /** Holds the ref's mutex: no save, push or removal. An abort does not stop a running `fn`. */
  exclusively<T>(ref: string, signal: AbortSignal, fn: () => Promise<T>): Promise<T>;
  forget(ref: string): void;
  inspect(refOrId: string, signal: AbortSignal): Promise<ImageInfo | null>;
  /** Removes an image of ours, by ref or, without ref, by id; with `of`, only that instance's. */
  remove(refOrId: string, signal: AbortSignal, of?: { id: string }): Promise<void>;
  /** Removes an unused image of ours without name, then parents under the same conditions. */
  removeNameless(imageId: string, signal: AbortSignal): Promise<void>;
}

/** Compares the ref in the label: images built from ours inherit all labels. */
export function isOwnImage(
  installation: string,
  image: { RepoTags?: string[] | null | undefined; Labels: Record<string, string> | null | undefined },
  refOrId: string,
): boolean {
  const { Labels } = image;
  if (Labels?.[labels.installation] !== installation || Labels[labels.kind] !== 'image') return false;
  const tags = (image.RepoTags ?? []).filter((tag) => tag !== '<none>:<none>');
  if (tags.length === 0) return refOrId.startsWith('sha256:');
  return Labels[labels.imageRef] === listedRef(refOrId) && tags.includes(listedRef(refOrId));
}

export function makeDockerImages(deps: {
  client: DockerClient;
  host: Pick<Host, 'facts'>;
  installation: string;
  buildLocalImage?: BuildLocalImage | undefined;
}): DockerImages {
  const { client, host, installation, buildLocalImage } = deps;
  const { docker, call } = client;
  const present = makeBoundedMap<true>({ maxEntries: MAX_PRESENT });
  const mutex = makeKeyedMutex<string>({ abortError: abortFault });
  const exclusively: DockerImages['exclusively'] = (ref, signal, fn) => mutex.run(listedRef(ref), fn, signal);

  async function inspect(refOrId: string, signal: AbortSignal): Promise<ImageInfo | null> {
    try {
      return inspectAnswer.parse(await client.get(`/images/${refPath(refOrId)}/json`, signal));
    } catch (error) {
      if (isImageGone(error)) return null;
      throw faultOf(error);
    }
  }

  async function isPresent(ref: string, signal: AbortSignal): Promise<boolean> {
    try {
      await client.get(`/images/${refPath(ref)}/json`, signal);
      return true;
    } catch (error) {
      if (statusOf(error) === 404) return false;
      throw error;
    }
  }

  /** False when in use by a container or an image. `noprune`: untagged parents may be foreign. */
  async function removeUnlessUsed(refOrId: string, signal: AbortSignal): Promise<boolean> {
    try {
      const request = { force: false, noprune: true, abortSignal: signal };
      await call(signal, () => docker.getImage(refPath(refOrId)).remove(request));
      return true;
    } catch (error) {
      if (isImageGone(error)) return true;
      if (statusOf(error) === 409) return false;
      throw error;
    }
  }

  const removeNameless: DockerImages['removeNameless'] = async (imageId, signal) => {
    let next = imageId;
    while (next !== '') {
      const image = await inspect(next, signal);
      if (image === null || !isOwnImage(installation, { ...image, Labels: image.Config?.Labels }, image.Id)) return;
      if ((image.RepoTags ?? []).length > 0 || !(await removeUnlessUsed(image.Id, signal))) return;
      next = image.Parent ?? '';
    }
  };

  async function remove(refOrId: string, signal: AbortSignal, of?: { id: string }): Promise<void> {
    const image = await inspect(refOrId, signal);
    if (image === null) return;
    const Labels = image.Config?.Labels;
    const isMeant = of === undefined || Labels?.[labels.id] === of.id;
    if (!isMeant || !isOwnImage(installation, { ...image, Labels }, refOrId)) {
      const text = `${refOrId} was not saved by this installation${of ? ' from that instance' : ''}, so Berth does not remove it; the operator can remove it`;
      throw new EngineFault('rejected', text, { retry: false });
    }
    present.delete(refOrId);
    if (!(await removeUnlessUsed(refOrId, signal))) {
      const text = `${refOrId} is used by an instance; terminate the instance, then remove the image`;
      throw new EngineFault('busy', text, { retry: true });
    }
    if (image.Parent) await removeNameless(image.Parent, signal);
  }

  return {
    async ensure(ref, onProgress, signal, credentials, { askRegistry } = { askRegistry: false }) {
      if (signal.aborted) throw faultOf(signal.reason);
      if (present.get(ref) && !askRegistry) return;
      if (askRegistry || !(await isPresent(ref, signal))) {
        if (!ref.startsWith(LOCAL_PREFIX)) {
          // The engine never asks the registry about a present image named by digest.
          if (askRegistry && ref.includes('@')) await checkAccess({ client, ref, signal, credentials });
          await pull({ client, ref, onProgress, signal, credentials });
          // A stopping engine may end the stream without an error.
          if (!(await isPresent(ref, signal))) throw interrupted(ref);
        } else if (buildLocalImage !== undefined) await call(signal, () => buildLocalImage(ref, onProgress, signal));
        else
          throw new EngineFault('not_found', `the image ${ref} is not on the host, and there is no recipe for it`, {
            retry: false,
            reason: 'imageMissing',
          });
      }
      present.set(ref, true);
    },
    async check(ref, signal, credentials) {
      const { architecture, podman } = await host.facts(signal);
      if (podman) return false;
      const { digest, architectures } = await checkAccess({ client, ref, signal, credentials });
      if (architectures.length === 0 || architectures.includes(architecture)) return { digest };
      const text = `${ref}: the image is for ${[...new Set(architectures)].join(', ')}, and the host for ${architecture}; choose an image for this architecture`;
      throw new EngineFault('rejected', text, { retry: false, reason: 'imageUnfit' });
    },
    push: (ref, onProgress, signal, credentials) =>
      exclusively(ref, signal, () => push({ client, ref, onProgress, signal, credentials })),
    exclusively,
    forget: present.delete,
    inspect,
    remove: (refOrId, signal, of) => exclusively(refOrId, signal, () => remove(refOrId, signal, of)),
    removeNameless,
  };
}

const interrupted = (ref: string): EngineFault =>
  new EngineFault('unreachable', `${ref}: the container engine aborted the download; Berth retries`, {
    retry: true,
  });

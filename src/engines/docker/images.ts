/** Images: had from a registry with progress, or built from a recipe, or kept from an instance's root disk. */
import { z } from 'zod';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { ImageProgress } from '../contract.ts';
import { labels } from '../labels.ts';
import type { Client } from './client.ts';
import { faultOf, fitForOwner, sentenceOf, statusOf } from './faults.ts';
import { linesOf } from './streams.ts';

export type BuildLocalImage = (
  ref: string,
  onProgress: (progress: ImageProgress) => void,
  signal: AbortSignal,
) => Promise<void>;

/** Refs under it are no registry's: they are built from a recipe. */
export const LOCAL_PREFIX = 'berth.local/';

export interface Images {
  ensure(ref: string, onProgress: (progress: ImageProgress) => void, signal: AbortSignal): Promise<void>;
  /** It turned out not to be there. */
  forget(ref: string): void;
  save(containerId: string, id: InstanceId, ref: string, signal: AbortSignal): Promise<void>;
}

export function makeImages({
  client,
  buildLocalImage,
}: {
  client: Client;
  buildLocalImage?: BuildLocalImage | undefined;
}): Images {
  const { docker, call } = client;
  const present = new Set<string>();

  async function isPresent(ref: string, signal: AbortSignal): Promise<boolean> {
    try {
      await client.get(`/images/${ref.split('/').map(encodeURIComponent).join('/')}/json`, signal);
      return true;
    } catch (error) {
      if (statusOf(error) === 404) return false;
      throw error;
    }
  }

  return {
    async ensure(ref, onProgress, signal) {
      if (signal.aborted) throw faultOf(signal.reason);
      if (present.has(ref)) return;
      if (!(await isPresent(ref, signal))) {
        if (!ref.startsWith(LOCAL_PREFIX)) await pull(client, ref, onProgress, signal);
        else if (buildLocalImage !== undefined) await call(signal, () => buildLocalImage(ref, onProgress, signal));
        else
          throw new EngineFault('not_found', `the image ${ref} is not on the host, and there is no recipe for it`, {
            retry: false,
          });
      }
      if (present.size > 1000) present.clear();
      present.add(ref);
    },
    forget: (ref) => void present.delete(ref),
    async save(containerId, id, ref, signal) {
      const { repository, tag } = splitRef(ref);
      // The label of what it is made from stays; of its kind it is no instance, or a sweep would take it for one.
      const changes = [`LABEL ${labels.kind}=image`, `LABEL ${labels.id}=${id}`];
      await call(signal, (abortSignal) =>
        docker.getContainer(containerId).commit({ repo: repository, tag, pause: true, changes, abortSignal }),
      );
      present.add(ref);
    },
  };
}

/** Without a tag an engine would fetch all there are. */
export function splitRef(ref: string): { repository: string; tag: string } {
  const at = ref.indexOf('@');
  if (at !== -1) return { repository: ref.slice(0, at), tag: ref.slice(at + 1) };
  const colon = ref.lastIndexOf(':');
  if (colon > ref.lastIndexOf('/')) return { repository: ref.slice(0, colon), tag: ref.slice(colon + 1) };
  return { repository: ref, tag: 'latest' };
}

async function pull(
  client: Client,
  ref: string,
  onProgress: (progress: ImageProgress) => void,
  signal: AbortSignal,
): Promise<void> {
  const { repository, tag } = splitRef(ref);
  try {
    await client.call(signal, async (abortSignal) => {
      const stream = await client.docker.createImage({ fromImage: repository, tag, abortSignal });
      const add = makePullProgress(onProgress);
      for await (const line of linesOf(stream)) add(JSON.parse(line));
    });
  } catch (error) {
    throw signal.aborted ? faultOf(signal.reason) : pullFault(ref, error);
  }
}

const pullLine = z.object({
  id: z.string().optional(),
  status: z.string().optional(),
  error: z.string().optional(),
  progressDetail: z.object({ current: z.number().optional(), total: z.number().optional() }).optional(),
});

/** An error that a pull ended in after the engine had begun to answer. */
class PullError extends Error {
  override readonly name = 'PullError';
}

/** Bytes downloaded over all layers; what a layer adds to `total` is known only when it begins. Throws the pull's own error. */
export function makePullProgress(onProgress: (progress: ImageProgress) => void): (line: unknown) => void {
  const layers = new Map<string, { done: number; total: number }>();
  let last = '';
  return (line) => {
    const parsed = pullLine.safeParse(line);
    if (!parsed.success) return;
    const { id, status = '', error, progressDetail } = parsed.data;
    if (error !== undefined) throw new PullError(error);
    if (id === undefined) return;
    const layer = layers.get(id);
    if (status === 'Downloading' && progressDetail?.total !== undefined && progressDetail.total > 0) {
      const { current = 0, total } = progressDetail;
      layers.set(id, { total, done: Math.max(layer?.done ?? 0, Math.min(current, total)) });
    } else if (
      layer !== undefined &&
      /^(Verifying Checksum|Download complete|Extracting|Pull complete)$/.test(status)
    ) {
      layer.done = layer.total;
    } else return;
    const [done, total] = [...layers.values()].reduce(([a, b], next) => [a + next.done, b + next.total], [0, 0]);
    const text = done < total ? 'Downloading' : 'Unpacking';
    const now = `${text} ${done} ${total}`;
    if (now !== last) onProgress({ text, done, total });
    last = now;
  };
}

/** Registries' errors come through the engine as one sentence. */
export function pullFault(ref: string, error: unknown): EngineFault {
  const inner = error instanceof EngineFault ? error.cause : error;
  const sentence = inner instanceof PullError ? inner.message : sentenceOf(error);
  if (statusOf(error) === 0 && !(inner instanceof PullError)) return faultOf(error);
  const fault = (kind: EngineFault['kind'], text: string, retry: boolean): EngineFault =>
    new EngineFault(kind, `${ref}: ${text}`, { retry, cause: error });
  if (/no space left on device/i.test(sentence))
    return fault('no_capacity', "the host's disk is full; the operator has to free space", true);
  if (/toomanyrequests|rate limit/i.test(sentence))
    return fault('unreachable', 'the registry allows no more pulls for now', true);
  if (
    /pull access denied|unauthorized|authentication required|denied|no basic auth|forbidden|\b40[13]\b/i.test(sentence)
  ) {
    return fault('denied', 'the registry does not give it out: there is no such image, or it needs credentials', false);
  }
  if (/no matching manifest|does not match the specified platform|image operating system/i.test(sentence)) {
    return fault('rejected', "the image is not made for the host's processor architecture", false);
  }
  if (
    /no such host|timeout|timed out|connection refused|connection reset|network is unreachable|no route to host|\beof\b|tls|x509|server gave http response|\b50[0234]\b|deadline exceeded|temporary failure/i.test(
      sentence,
    )
  ) {
    return fault('unreachable', `the registry can not be reached (${fitForOwner(sentence)})`, true);
  }
  if (
    /manifest unknown|manifest for .* not found|not found|name unknown|repository .* does not exist|\b404\b/i.test(
      sentence,
    )
  ) {
    return fault('not_found', 'the registry has no such image; check its name and tag', true);
  }
  if (/invalid reference format|repository name must be/i.test(sentence))
    return fault('rejected', 'that is no name of an image', false);
  return fault(
    statusOf(error) >= 500 || inner instanceof PullError ? 'unreachable' : 'rejected',
    fitForOwner(sentence),
    true,
  );
}

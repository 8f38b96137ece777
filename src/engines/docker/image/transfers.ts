import { z } from 'zod';
import type { OnProgress, RegistryCredentials } from '../../contract.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { faultOf } from '../../../docker/faults.ts';
import { refPath, splitRef } from './refs.ts';
import { registryFault, TransferError } from './registry-faults.ts';
import { linesOf } from '../../../docker/streams.ts';

export interface Transfer {
  client: DockerClient;
  ref: string;
  onProgress: OnProgress;
  signal: AbortSignal;
  credentials: RegistryCredentials | undefined;
}

export function pull(transfer: Transfer): Promise<void> {
  const { repository, tag } = splitRef(transfer.ref);
  return follow(transfer, ({ docker }, request) => docker.createImage({ ...request, fromImage: repository, tag }));
}

export function push(transfer: Transfer): Promise<void> {
  const { repository, tag } = splitRef(transfer.ref);
  return follow(transfer, ({ docker }, request) => docker.getImage(refPath(repository)).push({ ...request, tag }));
}

const distributionAnswer = z.object({
  Descriptor: z.object({ digest: z.string() }).nullish(),
  Platforms: z.array(z.object({ architecture: z.string() })).nullish(),
});

interface Offered {
  digest: string;
  architectures: string[];
}

/**
 * Throws unless the registry grants the image to these credentials. Transfers nothing. Returns its
 * digest, '' if unknown, and its architectures; none: unknown.
 */
export async function checkAccess(transfer: Omit<Transfer, 'onProgress'>): Promise<Offered> {
  const { client, ref, signal, credentials } = transfer;
  const request = { authconfig: authOf(ref, credentials), abortSignal: signal };
  try {
    const answer = await client.call(signal, () => client.docker.getImage(refPath(ref)).distribution(request));
    const { Descriptor, Platforms } = distributionAnswer.safeParse(answer).data ?? {};
    const named = (Platforms ?? []).map(({ architecture }) => architecture);
    const architectures = named.filter((name) => name !== '' && name !== 'unknown');
    return { digest: Descriptor?.digest ?? '', architectures };
  } catch (error) {
    throw signal.aborted ? faultOf(signal.reason) : registryFault(ref, error);
  }
}

/** Empty without credentials: the engine refuses a push without the auth header. */
const authOf = (ref: string, credentials: RegistryCredentials | undefined) => ({
  username: credentials?.username ?? '',
  password: credentials?.secret ?? '',
  serveraddress: ref.slice(0, Math.max(0, ref.indexOf('/'))),
});

interface TransferRequest {
  authconfig: ReturnType<typeof authOf>;
  abortSignal: AbortSignal;
}

/** An abort closes the connection, and with it the engine ends the transfer. */
async function follow(
  { client, ref, onProgress, signal, credentials }: Transfer,
  begin: (client: DockerClient, request: TransferRequest) => Promise<NodeJS.ReadableStream>,
): Promise<void> {
  const add = makeTransferProgress(onProgress);
  const request = { authconfig: authOf(ref, credentials), abortSignal: signal };
  try {
    await client.call(signal, async () => {
      for await (const line of linesOf(await begin(client, request))) add(JSON.parse(line));
    });
  } catch (error) {
    throw signal.aborted ? faultOf(signal.reason) : registryFault(ref, error);
  }
}

const transferLine = z.object({
  id: z.string().optional(),
  status: z.string().optional(),
  error: z.string().optional(),
  progressDetail: z.object({ current: z.number().optional(), total: z.number().optional() }).optional(),
});

const completed = /^(Verifying Checksum|Download complete|Extracting|Pull complete|Pushed)$/;

/** Sums bytes over all layers; a retried layer never goes back. Throws the transfer's own error. */
export function makeTransferProgress(onProgress: OnProgress): (line: unknown) => void {
  const layers = new Map<string, { done: number; total: number }>();
  let last = '';
  return (line) => {
    const parsed = transferLine.safeParse(line);
    if (!parsed.success) return;
    const { id, status = '', error, progressDetail } = parsed.data;
    if (error !== undefined) throw new TransferError(error);
    if (id === undefined) return;
    const layer = layers.get(id);
    const moves = status === 'Downloading' || status === 'Pushing';
    if (moves && progressDetail?.total !== undefined && progressDetail.total > 0) {
      const { current = 0 } = progressDetail;
      // A push estimates sizes, and may lower them later.
      const total = Math.max(progressDetail.total, layer?.total ?? 0);
      layers.set(id, { total, done: Math.max(layer?.done ?? 0, Math.min(current, total)) });
    } else if (layer !== undefined && completed.test(status)) {
      layer.done = layer.total;
    } else return;
    const [done, total] = [...layers.values()].reduce(([a, b], next) => [a + next.done, b + next.total], [0, 0]);
    const text = status.startsWith('Push') ? 'Uploading' : done < total ? 'Downloading' : 'Unpacking';
    const now = `${text} ${done} ${total}`;
    if (now !== last) onProgress({ text, done, total, unit: 'bytes' });
    last = now;
  };
}

import { z } from 'zod';
import type { ImageProgress, RegistryCredentials } from '../../contract.ts';
import type { Client } from '../client/client.ts';
import { faultOf } from '../client/faults.ts';
import { refPath, splitRef } from './refs.ts';
import { registryFault, TransferError } from './registry-faults.ts';
import { linesOf } from '../client/streams.ts';

export interface Transfer {
  client: Client;
  ref: string;
  onProgress: (progress: ImageProgress) => void;
  signal: AbortSignal;
  credentials: RegistryCredentials | undefined;
}

export async function pull({ client, ref, onProgress, signal, credentials }: Transfer): Promise<void> {
  const { repository, tag } = splitRef(ref);
  const authconfig = authOf(ref, credentials);
  await follow({ client, ref, signal }, makeTransferProgress(onProgress), (abortSignal) =>
    client.docker.createImage({ fromImage: repository, tag, authconfig, abortSignal }),
  );
}

export async function push({ client, ref, onProgress, signal, credentials }: Transfer): Promise<void> {
  const { repository, tag } = splitRef(ref);
  const authconfig = authOf(ref, credentials);
  await follow({ client, ref, signal }, makeTransferProgress(onProgress), (abortSignal) =>
    client.docker.getImage(refPath(repository)).push({ tag, authconfig, abortSignal }),
  );
}

/** Throws unless the registry grants the image to these credentials. Transfers nothing. */
export async function checkAccess({ client, ref, signal, credentials }: Omit<Transfer, 'onProgress'>): Promise<void> {
  const authconfig = authOf(ref, credentials);
  try {
    await client.call(signal, (abortSignal) =>
      client.docker.getImage(refPath(ref)).distribution({ authconfig, abortSignal }),
    );
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

/** An abort closes the connection, and with it the engine ends the transfer. */
async function follow(
  { client, ref, signal }: { client: Client; ref: string; signal: AbortSignal },
  add: (line: unknown) => void,
  begin: (abortSignal: AbortSignal) => Promise<NodeJS.ReadableStream>,
): Promise<void> {
  try {
    await client.call(signal, async (abortSignal) => {
      for await (const line of linesOf(await begin(abortSignal))) add(JSON.parse(line));
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
export function makeTransferProgress(onProgress: (progress: ImageProgress) => void): (line: unknown) => void {
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

/**
 * # Port-forward
 *
 * Channel 0 carries data, channel 1 an error as text; the first message of each is the port. The
 * runtime connects to `localhost` within the Pod. It never says that it has connected, only that it
 * could not: a connection counts as open once data arrives, or no error came for a while. There is
 * no half-close: after our end, the connection stays open for what still arrives.
 */
import { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { raceAbort } from '../async/abort.ts';
import { ApiError } from './api-error.ts';
import { pathOf, resources } from './api-resources.ts';
import { openChannels, type ChannelReceiver, type ChannelSocket } from './channel-socket.ts';
import type { StreamContext } from './pod-exec.ts';

const PROTOCOLS = ['v4.channel.k8s.io'];
const [DATA, ERROR] = [0, 1] as const;
const PORT_BYTES = 2;
const BUFFER_BYTES = 64 * 1024;
/** Bounds of the wait for an error, which is the time that the opening took. */
const MIN_WAIT_MS = 20;
const MAX_WAIT_MS = 500;
/** Silence after our end that ends the connection. */
const LINGER_MS = 1_000;

/** Throws an `ApiError`: `absent` without the Pod, `conflict` where nothing listens. */
export async function openPortForward(
  { connection, namespace, stopping }: StreamContext,
  pod: string,
  port: number,
  signal: AbortSignal,
): Promise<Duplex> {
  const path = pathOf(resources.pods, namespace, pod, 'portforward');
  const query = [['ports', String(port)]] as const;
  const startedMs = performance.now();
  let forwarded: ForwardedPort | undefined;
  await openChannels(
    { connection, path, query, protocols: PROTOCOLS, signal, stopping },
    (opened) => (forwarded = new ForwardedPort(opened)),
  );
  if (forwarded === undefined) throw new Error('an open socket has a receiver');
  const open: ForwardedPort = forwarded;
  const waitMs = Math.min(MAX_WAIT_MS, Math.max(MIN_WAIT_MS, performance.now() - startedMs));
  try {
    await raceAbort(Promise.race([open.answered, delay(waitMs)]), signal);
  } catch (error) {
    open.destroy();
    throw error;
  }
  return open;
}

class ForwardedPort extends Duplex implements ChannelReceiver {
  readonly #socket: ChannelSocket;
  readonly #answered = Promise.withResolvers<void>();
  /** Bytes of the port that are still to come on each channel. */
  readonly #header = [PORT_BYTES, PORT_BYTES];
  #linger: NodeJS.Timeout | undefined;

  constructor(socket: ChannelSocket) {
    super({ readableHighWaterMark: BUFFER_BYTES, writableHighWaterMark: BUFFER_BYTES });
    this.#socket = socket;
    this.answered.catch(() => {});
    this.on('error', () => {});
  }

  /** Resolves with the first data, rejects with the first error. */
  get answered(): Promise<void> {
    return this.#answered.promise;
  }

  onMessage(channel: number, message: Buffer): void {
    const skipped = Math.min(this.#header[channel] ?? 0, message.length);
    if (channel === DATA || channel === ERROR) this.#header[channel] = (this.#header[channel] ?? 0) - skipped;
    const bytes = message.subarray(skipped);
    if (bytes.length === 0) return;
    if (channel === ERROR) {
      const error = new ApiError('conflict', bytes.toString('utf8').trim());
      this.#answered.reject(error);
      this.destroy(error);
      return;
    }
    this.#answered.resolve();
    this.#linger?.refresh();
    if (!this.destroyed && !this.push(bytes)) this.#socket.pause();
  }

  onClosed(error: ApiError | undefined): void {
    this.#answered.reject(error ?? new ApiError('conflict', 'the connection was closed'));
    if (error === undefined) this.push(null);
    else this.destroy(error);
    clearTimeout(this.#linger);
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.send(DATA, chunk).then(() => done(), done);
  }

  override _final(done: () => void): void {
    this.#linger = setTimeout(() => this.#socket.close(), LINGER_MS);
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#linger);
    this.#socket.close();
    done(error);
  }
}

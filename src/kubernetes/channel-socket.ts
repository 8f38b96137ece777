/**
 * WebSocket to a subresource of a Pod. The first byte of each message is its channel. Reading
 * pauses while the receiver is full, so that a slow reader blocks the sender and not our memory.
 */
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { WebSocket, type ClientOptions, type RawData } from 'ws';
import { onAbort } from '../async/abort.ts';
import { ApiError, errorOfAnswer, errorOfConnection } from './api-error.ts';
import { urlOf } from './api-request.ts';
import type { ClusterConnection } from './cluster-connection.ts';

/** Channel of a message that closes another channel, in version 5. */
export const CLOSE_CHANNEL = 255;
/** Payload of one message. */
const MESSAGE_BYTES = 32 * 1024;
const KEEP_ALIVE_MS = 30_000;

export interface ChannelOptions {
  connection: ClusterConnection;
  path: string;
  query: readonly (readonly [string, string])[];
  protocols: string[];
  /** Ends the opening only. */
  signal: AbortSignal;
  /** Closes the open socket. */
  stopping: AbortSignal;
}

export interface ChannelSocket {
  /** Chosen protocol, such as `v5.channel.k8s.io`. */
  protocol: string;
  /** Resolves once the bytes left this process; splits what is long. */
  send(channel: number, bytes: Buffer): Promise<void>;
  /** Closes one channel; false: the protocol can't. */
  closeChannel(channel: number): boolean;
  pause(): void;
  resume(): void;
  close(): void;
}

export interface ChannelReceiver {
  onMessage(channel: number, bytes: Buffer): void;
  /** Once. Undefined: the peer closed the socket in order. */
  onClosed(error: ApiError | undefined): void;
}

/** Throws an `ApiError`, or the reason of the signal. Calls `receiverOf` before any message. */
export async function openChannels(
  options: ChannelOptions,
  receiverOf: (socket: ChannelSocket) => ChannelReceiver,
): Promise<ChannelSocket> {
  const { connection, protocols, signal, stopping } = options;
  signal.throwIfAborted();
  const { agent: _agent, proxyAgent, auth, ...rest } = await connection.options();
  signal.throwIfAborted();
  const url = urlOf(connection, options.path);
  for (const [name, value] of options.query) url.searchParams.append(name, value);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  // Without the keep-alive agent, which would retain the connection.
  const clientOptions: ClientOptions & { servername?: string | undefined } = {
    ...rest,
    ...(auth === undefined ? {} : { auth }),
    ...(proxyAgent === undefined ? {} : { agent: proxyAgent }),
    perMessageDeflate: false,
  };
  const socket = new WebSocket(url, protocols, clientOptions);
  return attach(socket, { signal, stopping, server: connection.server.host, path: options.path }, receiverOf);
}

interface AttachOptions {
  signal: AbortSignal;
  stopping: AbortSignal;
  server: string;
  path: string;
}

function attach(
  socket: WebSocket,
  { signal, stopping, server, path }: AttachOptions,
  receiverOf: (socket: ChannelSocket) => ChannelReceiver,
): Promise<ChannelSocket> {
  return new Promise((resolve, reject) => {
    let receiver: ChannelReceiver | undefined;
    let failed: ApiError | undefined;
    const leave = onAbort(signal, () => {
      reject(signal.reason);
      socket.terminate();
    });
    const leaveStopping = onAbort(stopping, () => {
      failed ??= errorOfConnection(stopping.reason, server);
      socket.terminate();
    });
    socket.on('upgrade', ({ socket: wire }) => wire.setKeepAlive(true, KEEP_ALIVE_MS).setNoDelay(true));
    socket.on('unexpected-response', (_request, answer: IncomingMessage) => {
      void refusalOf(answer, path).then((error) => {
        reject(error);
        socket.terminate();
      });
    });
    socket.on('error', (error) => {
      failed ??= errorOfConnection(error, server);
      if (receiver === undefined) reject(failed);
    });
    socket.on('message', (data, isBinary) => {
      const bytes = bytesOf(data);
      if (isBinary && bytes.length > 0) receiver?.onMessage(bytes[0] ?? 0, bytes.subarray(1));
    });
    socket.on('close', (code) => {
      leave();
      leaveStopping();
      const isOrderly = failed === undefined && (code === 1000 || code === 1005);
      const error = isOrderly ? undefined : (failed ?? errorOfConnection(new Error(`closed with ${code}`), server));
      reject(error ?? new ApiError('away', `the API server ${server} closed the connection at once`));
      receiver?.onClosed(error);
    });
    socket.on('open', () => {
      leave();
      const channels = channelsOf(socket);
      receiver = receiverOf(channels);
      resolve(channels);
    });
  });
}

/** A frame is one buffer, or several; an array buffer only if asked for. */
const bytesOf = (data: RawData): Buffer =>
  Array.isArray(data) ? Buffer.concat(data) : Buffer.isBuffer(data) ? data : Buffer.from(data);

const refusalOf = async (answer: IncomingMessage, path: string): Promise<ApiError> =>
  errorOfAnswer({
    httpStatus: answer.statusCode ?? 500,
    body: await text(answer).catch(() => ''),
    retryAfter: answer.headers['retry-after'],
    request: `GET ${path}`,
  });

function channelsOf(socket: WebSocket): ChannelSocket {
  const sendOne = (channel: number, bytes: Buffer): Promise<void> =>
    new Promise((resolve, reject) => {
      const message = Buffer.allocUnsafe(bytes.length + 1);
      message[0] = channel;
      bytes.copy(message, 1);
      socket.send(message, { binary: true }, (error) => (error instanceof Error ? reject(error) : resolve()));
    });
  return {
    protocol: socket.protocol,
    async send(channel, bytes) {
      for (let from = 0; from === 0 || from < bytes.length; from += MESSAGE_BYTES)
        await sendOne(channel, bytes.subarray(from, from + MESSAGE_BYTES));
    },
    closeChannel(channel) {
      if (socket.protocol !== 'v5.channel.k8s.io') return false;
      if (socket.readyState === socket.OPEN) socket.send(Buffer.from([CLOSE_CHANNEL, channel]));
      return true;
    },
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close: () => socket.close(1000),
  };
}

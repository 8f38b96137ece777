/**
 * HTTP/2 connections of clients; WebSockets stay on HTTP/1.1 (no extended CONNECT).
 *
 * Memory per client: `streams` uploads of one window and downloads of one stream buffer. The
 * connection window is replenished on arrival, so no stream blocks another. nghttp2 and Node close
 * floods of resets, ACKs, invalid frames, CONTINUATIONs and headers.
 */
import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { PARSED_SHARE } from '../full-cookies.ts';
import { badRequest, headTooLarge, sendAnswer } from './answers.ts';
import type { ClientRequest, ClientResponse } from './client-exchange.ts';
import { StreamRequest, StreamResponse } from './http2-exchange.ts';
import { http2Head } from './http2-head.ts';
import type { GatewayLimits } from './gateway-limits.ts';

export type OnRequest = (req: ClientRequest, res: ClientResponse, expectsContinue: boolean) => void;

interface Client {
  socket: TLSSocket;
  session: ServerHttp2Session;
  open: number;
  idle: NodeJS.Timeout;
}

/** Upload window of a stream; allows 5 MB/s at a round trip of 50 ms. */
const STREAM_WINDOW_BYTES = 262_144;
const CONNECTION_WINDOW_BYTES = 1_048_576;

const RESETS = { streamResetBurst: 1_000, streamResetRate: 33 };

const CLOSE_TIMEOUT_MS = 1_000;

const ignore = (): void => {};

export class Http2Clients {
  readonly #limits: GatewayLimits;
  readonly #onRequest: OnRequest;
  readonly #clients = new Set<Client>();
  #closing = false;

  constructor(limits: GatewayLimits, onRequest: OnRequest) {
    this.#limits = limits;
    this.#onRequest = onRequest;
  }

  serve(socket: TLSSocket): void {
    if (socket.destroyed) return;
    const { streams, maxHeaderBytes, headMs } = this.#limits;
    const session = performServerHandshake(new Http2Wire(socket), {
      settings: {
        maxConcurrentStreams: streams,
        maxHeaderListSize: PARSED_SHARE * maxHeaderBytes,
        initialWindowSize: STREAM_WINDOW_BYTES,
      },
      // The size limit bounds pairs already.
      maxHeaderListPairs: 1_024,
      // Forwards repeated headers of an instance.
      strictSingleValueFields: false,
      ...RESETS,
    });
    session.on('error', ignore);
    session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    const client: Client = { socket, session, open: 0, idle: setTimeout(() => leave(client), headMs) };
    this.#clients.add(client);
    socket.once('close', () => {
      clearTimeout(client.idle);
      this.#clients.delete(client);
    });
    session.on('stream', (stream, headers, _flags, rawHeaders) => {
      this.#onStream(client, stream, rawHeaders, headers.accept);
    });
    if (this.#closing) session.close();
  }

  close(): void {
    this.#closing = true;
    for (const { session } of this.#clients) session.close();
  }

  cut(): void {
    for (const client of this.#clients) {
      // Without an error, resets would report success.
      if (client.open > 0)
        client.session.destroy(new Error('the gateway is stopping'), constants.NGHTTP2_INTERNAL_ERROR);
      leave(client);
    }
  }

  #onStream(client: Client, stream: ServerHttp2Stream, fields: readonly string[], accept: string | undefined): void {
    client.open += 1;
    if (client.open === 1) clearTimeout(client.idle);
    stream.on('error', ignore);
    stream.once('close', () => {
      client.open -= 1;
      if (client.open === 0 && !client.socket.destroyed)
        client.idle = setTimeout(() => leave(client), this.#limits.idleClientMs);
    });
    const head = http2Head(fields, this.#limits.maxHeaderBytes);
    const res = new StreamResponse(stream);
    if ('why' in head) {
      const req = new StreamRequest(stream, { method: '', path: '', raw: [], accept }, client.socket);
      const isTooLarge = head.status === 431;
      const answer = isTooLarge ? headTooLarge(this.#limits.maxHeaderBytes) : badRequest(head.why, head.status);
      sendAnswer(req, res, answer, accept ?? '');
      return;
    }
    this.#onRequest(new StreamRequest(stream, { ...head, accept }, client.socket), res, head.expectsContinue);
  }
}

/** Node waits forever for the client to close. A late request is still answered. */
function leave(client: Client): void {
  const { socket, session } = client;
  session.close();
  const timer = setTimeout(() => {
    if (client.open === 0) socket.destroy();
  }, CLOSE_TIMEOUT_MS);
  socket.once('close', () => clearTimeout(timer));
}

/**
 * Wraps a socket as a plain stream. Given the socket, node:http2 reports failed writes to nobody
 * (its C++ has a TODO there), and a client that left would be served forever.
 */
class Http2Wire extends Duplex {
  readonly #socket: TLSSocket;

  constructor(socket: TLSSocket) {
    super();
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) socket.pause();
    });
    socket.on('end', () => this.push(null));
    socket.on('error', (error) => this.destroy(error));
    socket.on('close', () => this.destroy());
    socket.pause();
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, encoding, done);
  }

  override _writev(chunks: { chunk: Buffer; encoding: BufferEncoding }[], done: (error?: Error | null) => void): void {
    this.#socket.cork();
    const last = chunks.length - 1;
    for (const [index, { chunk, encoding }] of chunks.entries())
      this.#socket.write(chunk, encoding, index === last ? done : undefined);
    this.#socket.uncork();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}

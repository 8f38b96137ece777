/**
 * Clients that chose HTTP/2 when TLS began. Each connection carries many requests, a stream each, and every stream goes the same way
 * through the gateway as a request of HTTP/1.1. WebSockets stay there: without extended CONNECT in our settings browsers open
 * a connection of HTTP/1.1 for them.
 *
 * What a client can make us hold: at once `streams` requests, of each what its window lets in while its instance does not read, and of each
 * response what a stream buffers for a reader that is slow. What arrives is given back to the connection's window at once and to the
 * stream's when it is read, so none stops another. nghttp2 and Node end a connection that floods: with resets (below), more than 1,000
 * acknowledgements that wait, invalid and empty frames (1,000), refused streams (100), CONTINUATIONs (8), or 10 MB of
 * headers and frames; and while what we write waits, they read nothing. PINGs that are read cost their sender as much as us.
 */
import { constants, performServerHandshake } from 'node:http2';
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { badRequest, sendAnswer } from './answers.ts';
import type { ClientRequest, ClientResponse } from './client-exchange.ts';
import { StreamRequest, StreamResponse } from './http2-exchange.ts';
import { http2Head } from './http2-head.ts';
import { Http2Wire } from './http2-wire.ts';

export interface Http2Limits {
  /** Requests under way on one connection. */
  streams: number;
  maxHeaderBytes: number;
  /** Until the first request must have come. */
  headMs: number;
  idleClientMs: number;
}

export type OnRequest = (req: ClientRequest, res: ClientResponse, expectsContinue: boolean) => void;

interface Client {
  socket: TLSSocket;
  session: ServerHttp2Session;
  /** Requests whose streams are not closed. */
  open: number;
  idle: NodeJS.Timeout;
}

/** Of an upload that its instance does not read, as much may arrive; at a round trip of 50 ms 5 MB/s flow. */
const STREAM_WINDOW_BYTES = 262_144;
const CONNECTION_WINDOW_BYTES = 1_048_576;

/** Requests that a client may take back at once, and then per second. */
const RESETS = { streamResetBurst: 1_000, streamResetRate: 33 };

/** So long a client may take to close its side after ours. */
const LEAVE_MS = 1_000;

const ignore = (): void => {};

export class Http2Clients {
  readonly #limits: Http2Limits;
  readonly #onRequest: OnRequest;
  readonly #clients = new Set<Client>();
  #closing = false;

  constructor(limits: Http2Limits, onRequest: OnRequest) {
    this.#limits = limits;
    this.#onRequest = onRequest;
  }

  serve(socket: TLSSocket): void {
    if (socket.destroyed) return;
    const { streams, maxHeaderBytes, headMs } = this.#limits;
    const session = performServerHandshake(new Http2Wire(socket), {
      settings: {
        maxConcurrentStreams: streams,
        maxHeaderListSize: maxHeaderBytes,
        initialWindowSize: STREAM_WINDOW_BYTES,
      },
      // The size bounds them already.
      maxHeaderListPairs: 1_024,
      // What an instance sends twice is passed on twice.
      strictSingleValueFields: false,
      ...RESETS,
    });
    session.on('error', ignore); // Node destroys it by itself, and with it its streams
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

  /** Tells all that no further request is taken; those under way go on. */
  close(): void {
    this.#closing = true;
    for (const { session } of this.#clients) session.close();
  }

  /** Breaks off what is under way. */
  cut(): void {
    for (const client of this.#clients) {
      // Without an error the resets would say that all is well.
      if (client.open > 0) client.session.destroy(new Error('the gateway stops'), constants.NGHTTP2_INTERNAL_ERROR);
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
      sendAnswer(req, res, badRequest(head.why, head.status), accept ?? '');
      return;
    }
    this.#onRequest(new StreamRequest(stream, { ...head, accept }, client.socket), res, head.expectsContinue);
  }
}

/** Node waits for a client to close its side, for ever. A request that came at the last moment is still answered. */
function leave(client: Client): void {
  const { socket, session } = client;
  session.close();
  const timer = setTimeout(() => {
    if (client.open === 0) socket.destroy();
  }, LEAVE_MS);
  socket.once('close', () => clearTimeout(timer));
}

/** Represents an HTTP/2 stream as request and response; node:http2 would join repeated headers. */
import { constants, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { ClientRequest, ClientResponse, RequestEvent, RequestListener } from './client-exchange.ts';

export class StreamRequest implements ClientRequest {
  readonly httpVersion = '2.0';
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly headers: { readonly accept?: string | undefined };
  readonly socket: Socket;
  readonly bodyFollows: boolean;
  readonly #stream: ServerHttp2Stream;

  constructor(
    stream: ServerHttp2Stream,
    head: { method: string; path: string; raw: readonly string[]; accept: string | undefined },
    socket: Socket,
  ) {
    this.#stream = stream;
    this.method = head.method;
    this.url = head.path;
    this.rawHeaders = head.raw;
    this.headers = { accept: head.accept };
    this.socket = socket;
    this.bodyFollows = !stream.endAfterHeaders;
    // Node closes a reset stream only after it was read; a paused reader would wait forever.
    stream.once('aborted', () => stream.removeAllListeners('data').resume());
  }

  /** Node also emits 'end' for a reset stream, so completeness excludes aborted ones. */
  get complete(): boolean {
    return !this.#stream.aborted && (!this.bodyFollows || this.#stream.readableEnded);
  }

  get destroyed(): boolean {
    return this.#stream.destroyed;
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  /** After the response, a reset without error asks the client to stop sending (RFC 9113 §8.1). */
  destroy(): void {
    this.#stream.close(constants.NGHTTP2_NO_ERROR);
  }

  on(event: RequestEvent, listener: RequestListener): void {
    this.#stream.on(event, listener);
  }

  once(event: 'close', listener: () => void): void {
    this.#stream.once(event, listener);
  }

  off(event: RequestEvent, listener: RequestListener): void {
    this.#stream.off(event, listener);
  }
}

const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

export class StreamResponse implements ClientResponse {
  shouldKeepAlive = true;
  readonly #stream: ServerHttp2Stream;
  #ended = false;
  #trailers: { [name: string]: string[] } = Object.create(null);

  constructor(stream: ServerHttp2Stream) {
    this.#stream = stream;
  }

  get headersSent(): boolean {
    return this.#stream.headersSent;
  }

  get destroyed(): boolean {
    return this.#stream.destroyed || (this.#stream.closed && !this.#ended);
  }

  get writableEnded(): boolean {
    return this.#ended;
  }

  /** Node ends a HEAD's writable side before the response. */
  get writableFinished(): boolean {
    return this.#ended && this.#stream.writableFinished;
  }

  writeContinue(): void {
    this.#inform(100);
  }

  writeProcessing(): void {
    this.#inform(102);
  }

  writeEarlyHints(hints: { [name: string]: string[] }): void {
    this.#inform(103, hints);
  }

  #inform(status: number, headers: { [name: string]: string[] } = {}): void {
    if (!this.destroyed) this.#stream.additionalHeaders({ ...headers, ':status': status });
  }

  writeHead(status: number, _reason: string | undefined, headers: string[]): void {
    if (this.destroyed) return;
    const fields = [':status', String(status)];
    let sized = this.#stream.writableEnded || WITHOUT_BODY.has(status);
    for (let at = 0; at + 1 < headers.length; at += 2) {
      const name = (headers[at] ?? '').toLowerCase();
      if (name === 'content-length') sized = true;
      fields.push(name, headers[at + 1] ?? '');
    }
    if (!sized) this.#stream.once('wantTrailers', () => this.#stream.sendTrailers(this.#trailers));
    this.#stream.respond(fields, { waitForTrailers: !sized });
  }

  flushHeaders(): void {}

  write(chunk: Buffer): boolean {
    return this.#stream.writableEnded || this.#stream.write(chunk);
  }

  addTrailers(trailers: readonly [string, string][]): void {
    for (const [name, value] of trailers) (this.#trailers[name.toLowerCase()] ??= []).push(value);
  }

  end(chunk?: Buffer | string): void {
    this.#ended = true;
    if (!this.#stream.writableEnded) this.#stream.end(chunk, 'latin1');
  }

  /** Needs an error: without one, Node resets with NO_ERROR. */
  destroy(): void {
    this.#stream.destroy(new Error('the response broke off'));
  }

  on(event: 'error', listener: (error: Error) => void): void {
    this.#stream.on(event, listener);
  }

  once(event: 'close' | 'drain', listener: () => void): void {
    this.#stream.once(event, listener);
  }
}

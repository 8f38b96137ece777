/** A client's request and response: node:http for HTTP/1.1, `http2-exchange.ts` for HTTP/2. */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';

export type RequestEvent = 'data' | 'end' | 'error' | 'close';
/** Takes the chunk of 'data', and the error of 'error'. */
export type RequestListener = (value: Buffer & Error) => void;

export interface ClientRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersion: string;
  readonly rawHeaders: readonly string[];
  readonly headers: { readonly accept?: string | undefined };
  readonly socket: Socket;
  /** HTTP/2 only: whether frames announce a body. */
  readonly bodyFollows?: boolean;
  readonly complete: boolean;
  readonly destroyed: boolean;
  pause(): unknown;
  resume(): unknown;
  destroy(): unknown;
  on(event: RequestEvent, listener: RequestListener): unknown;
  once(event: 'close', listener: () => void): unknown;
  off(event: RequestEvent, listener: RequestListener): unknown;
}

export interface ClientResponse {
  shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  readonly destroyed: boolean;
  readonly writableEnded: boolean;
  readonly writableFinished: boolean;
  writeContinue(): unknown;
  writeProcessing(): unknown;
  writeEarlyHints(hints: { [name: string]: string[] }): unknown;
  /** Without a reason, HTTP/1.1 gets the usual one of the status. */
  writeHead(status: number, reason: string | undefined, headers: string[]): unknown;
  flushHeaders(): unknown;
  write(chunk: Buffer): boolean;
  addTrailers(trailers: readonly [string, string][]): unknown;
  end(chunk?: Buffer): unknown;
  end(text: string, encoding: 'latin1'): unknown;
  /** Aborts, so that the client notices the truncation. */
  destroy(): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  once(event: 'close' | 'drain', listener: () => void): unknown;
}

/** Resets a connection whose end would mean the end of a body. TLS: ends without close_notify. */
export function reset(client: Duplex): void {
  if (client instanceof Socket && !(client instanceof TLSSocket)) client.resetAndDestroy();
  else client.destroy();
}

/** Aborts a response so that a truncated HTTP/1.0 body is not taken for complete. */
export function abort(req: ClientRequest, res: ClientResponse): void {
  if (req.httpVersion === '1.0') reset(req.socket);
  res.destroy();
}

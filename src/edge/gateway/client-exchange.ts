/**
 * What the gateway needs of a client's request and of the response to it, whichever HTTP the client speaks. For HTTP/1.1 these are
 * the objects of node:http as they are; for HTTP/2 see `http2-exchange.ts`.
 */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';

export interface ClientRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersion: string;
  /** Name, value, name, value …, as they came. */
  readonly rawHeaders: readonly string[];
  readonly headers: { readonly accept?: string | undefined };
  readonly socket: Socket;
  /** Whether a body follows, where frames tell; in HTTP/1.1 the head does. */
  readonly bodyFollows?: boolean;
  /** All of it has come. */
  readonly complete: boolean;
  readonly destroyed: boolean;
  pause(): unknown;
  resume(): unknown;
  /** No more of it is read. */
  destroy(): unknown;
  on(event: 'data', listener: (chunk: Buffer) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end' | 'close', listener: () => void): unknown;
  once(event: 'close', listener: () => void): unknown;
  off(event: 'data', listener: (chunk: Buffer) => void): unknown;
  off(event: 'end' | 'close', listener: () => void): unknown;
}

export interface ClientResponse {
  /** Of the connection; only HTTP/1.1 asks. */
  shouldKeepAlive: boolean;
  readonly headersSent: boolean;
  readonly destroyed: boolean;
  readonly writableEnded: boolean;
  readonly writableFinished: boolean;
  writeContinue(): unknown;
  writeProcessing(): unknown;
  writeEarlyHints(hints: { [name: string]: string[] }): unknown;
  writeHead(status: number, statusText: string, headers: string[]): unknown;
  writeHead(status: number, headers: string[]): unknown;
  flushHeaders(): unknown;
  write(chunk: Buffer): boolean;
  addTrailers(trailers: readonly [string, string][]): unknown;
  end(chunk?: Buffer): unknown;
  end(text: string, encoding: 'latin1'): unknown;
  /** Breaks it off, so that the client can't take it for whole. */
  destroy(): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  once(event: 'close' | 'drain', listener: () => void): unknown;
}

/**
 * Ends a connection so that what came over it can't be taken for whole, where only its end would be the end of a body. Over TLS that is an
 * end without a close_notify.
 */
export function reset(client: Duplex): void {
  if (client instanceof Socket && !(client instanceof TLSSocket)) client.resetAndDestroy();
  else client.destroy();
}

/** Breaks a response off. HTTP/1.0 knows no chunks. */
export function breakOff(req: ClientRequest, res: ClientResponse): void {
  if (req.httpVersion === '1.0') reset(req.socket);
  res.destroy();
}

import type { GatewayRoute, Log } from '../../control/index.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import { asError } from '../../domain/kernel/unknown-error.ts';
import type { Authorized } from './admission.ts';
import {
  restarting,
  clientStalled,
  died,
  drainOrCut,
  instanceStalled,
  notebookNotListening,
  notListening,
  sendAnswer,
  unreachable,
} from './answers.ts';
import type { Answer } from './answers.ts';
import { abort, type ClientRequest, type ClientResponse } from './client-exchange.ts';
import { IdleWatched, type IdleTimeouts } from './idle-timeouts.ts';
import type { GatewayLimits } from './gateway-limits.ts';
import { hasBody, type Head } from './head.ts';
import type { InstanceConnection, Receiver } from './instance-connection.ts';
import { announcedTrailers, downstreamHeaders, downstreamTrailers } from './downstream-headers.ts';
import type { PortPool } from './instance-pools.ts';
import { isBusy } from './loopback.ts';
import { toOwner, type OwnerDeps } from './owner-answers.ts';
import { takesNotice } from './sandbox-notice.ts';
import { requestHead } from './upstream-headers.ts';
import { RequestBody } from './request-body.ts';
import { ResponseFault, type ResponseHead } from './response-head.ts';
import type { InstanceTarget } from './routing.ts';

export interface Exchange {
  req: ClientRequest;
  res: ClientResponse;
  head: Head;
  target: InstanceTarget;
  authorized: Authorized;
  host: string;
  headers: string[];
  expectsContinue: boolean;
  notice: string | null;
  ofOwner: OwnerDeps;
  log: Log;
  idle: IdleTimeouts;
  limits: GatewayLimits;
  /** Called once, after the exchange ended. */
  onDone: () => void;
}

/** Never throws: failures are answered. */
export function forward(pool: PortPool, exchange: Exchange): void {
  const { req, res, head } = exchange;
  if (res.destroyed) {
    exchange.onDone();
    return;
  }
  const body = (req.bodyFollows ?? hasBody(head)) ? new RequestBody(req, head.contentLength) : null;
  const passing = new Passing(pool, exchange, body);
  res.once('close', () => {
    passing.clientClosed();
    exchange.idle.done(passing);
    exchange.onDone();
  });
  exchange.idle.watch(passing);
  if (exchange.expectsContinue) res.writeContinue();
  passing.begin();
}

class Passing extends IdleWatched implements Receiver {
  readonly #pool: PortPool;
  readonly #exchange: Exchange;
  readonly #body: RequestBody | null;
  readonly #method: string;
  #head = '';
  #connection: InstanceConnection | null = null;
  #clientGone = false;
  /** A retry is possible: the instance closed the reused connection before it read the request. */
  #again: boolean;
  #progress: 'nothing' | 'head' | 'body' | 'all' = 'nothing';
  /** Response head, delayed until its piece is parsed: until then the gateway can still answer. */
  #unsent: { status: number; reason: string; headers: string[] } | null = null;
  /** A body received with the head, sent in the same write. */
  #whole: Buffer | null = null;
  #lengthLeft = -1;
  #moves = 0;
  #clientIsFull = false;
  #stalled: Answer | null = null;
  #informed = 0;
  #notice: Buffer | undefined;

  constructor(pool: PortPool, exchange: Exchange, body: RequestBody | null) {
    super();
    this.#pool = pool;
    this.#exchange = exchange;
    this.#body = body;
    this.#method = exchange.req.method ?? 'GET';
    this.#again = body === null && (this.#method === 'GET' || this.#method === 'HEAD');
  }

  begin(): void {
    const { headers, target } = this.#exchange;
    this.#head = requestHead(this.#method, target.upstreamPath, headers, this.#body);
    const rested = this.#pool.takeIdle();
    if (rested === null) this.#connect();
    else this.#send(rested);
  }

  #connect(): void {
    this.#pool.connect().then(
      (connection) => {
        if (this.#clientGone) connection.destroy();
        else this.#send(connection);
      },
      (error: unknown) => this.onBroken(asError(error)),
    );
  }

  #send(connection: InstanceConnection): void {
    this.#connection = connection;
    connection.send(this.#method, this.#head, this.#body !== null, this);
    this.#body?.flowTo(connection);
  }

  override moves(): number {
    return this.#moves + (this.#body?.moves ?? 0);
  }

  override limitMs(): number {
    // The dial has a timeout of its own.
    if (this.#connection === null) return 0;
    const { clientIdleMs, instanceIdleMs } = this.#exchange.limits;
    return this.#waitsForClient ? clientIdleMs : instanceIdleMs;
  }

  get #waitsForClient(): boolean {
    return this.#progress === 'all' || this.#clientIsFull || this.#body?.waitsForClient === true;
  }

  /** After the head was sent, only a cut marks the truncation. */
  override expire(): void {
    const { req, res } = this.#exchange;
    if (this.#progress === 'all') return abort(req, res);
    const limitMs = this.limitMs();
    this.#stalled = this.#waitsForClient ? clientStalled(limitMs) : instanceStalled(limitMs);
    this.#connection?.destroy(new Error(this.#stalled.message));
  }

  clientClosed(): void {
    this.#clientGone = true;
    if (this.#progress !== 'all') this.#connection?.destroy();
  }

  onHead(head: ResponseHead): void {
    const { status, reason, raw, framing } = head;
    this.#moves += 1;
    const { req, target, authorized, host, notice } = this.#exchange;
    this.#again = false;
    const { headers, contentLength } = downstreamHeaders(raw, status, target, authorized.owner, host);
    if (status < 200) {
      this.#passInformation(status, headers);
      return;
    }
    if (framing === 'chunked' && req.httpVersion !== '1.0') headers.push(...announcedTrailers(raw));
    if (authorized.setCookie !== undefined) headers.push('Set-Cookie', authorized.setCookie);
    if (notice !== null && this.#method !== 'HEAD' && takesNotice(head)) {
      this.#notice = Buffer.from(notice);
      if (contentLength !== null) headers.splice(headers.indexOf('Content-Length'), 2);
    } else if (contentLength !== null) this.#lengthLeft = Number(contentLength);
    this.#unsent = { status, reason, headers };
    this.#progress = 'head';
  }

  #writeHead(): void {
    if (this.#unsent === null) return;
    const { status, reason, headers } = this.#unsent;
    this.#unsent = null;
    const { res } = this.#exchange;
    res.writeHead(status, PLAIN.test(reason) ? reason : undefined, headers);
  }

  /** Forwards 1xx responses; HTTP/1.0 clients do not know them. */
  #passInformation(status: number, headers: readonly string[]): void {
    const { req, res } = this.#exchange;
    // 1xx responses ignore backpressure: a limit protects memory.
    if ((this.#informed += 1) > MAX_INFORMATIONAL) return;
    if (status === 102) res.writeProcessing();
    if (status !== 103 || req.httpVersion === '1.0') return;
    const hints: { [name: string]: string[] } = Object.create(null);
    for (let at = 0; at + 1 < headers.length; at += 2) {
      if (headers[at]?.toLowerCase() === 'link') (hints['link'] ??= []).push(headers[at + 1] ?? '');
    }
    try {
      if (hints['link'] !== undefined) res.writeEarlyHints(hints);
    } catch {
      // Node throws on malformed links; a hint is not worth an error.
    }
  }

  onData(chunk: Buffer): boolean {
    const { res } = this.#exchange;
    if (this.#progress === 'head' && chunk.length === this.#lengthLeft) {
      this.#whole = chunk;
      return true;
    }
    this.#writeHead();
    this.#progress = 'body';
    this.#moves += 1;
    if (res.write(chunk)) return true;
    if (this.#clientIsFull) return false;
    this.#clientIsFull = true;
    res.once('drain', () => {
      this.#clientIsFull = false;
      this.#moves += 1;
      // `onData` may have ended the response: another request may own the connection then.
      if (this.#progress === 'body') this.#connection?.resume();
    });
    return false;
  }

  /** Sends body bytes that arrived with the head in one write; otherwise sends the head. */
  onPieceEnd(): void {
    if (this.#progress !== 'head' || this.#whole !== null) return;
    this.#writeHead();
    this.#exchange.res.flushHeaders();
  }

  onEnd(raw: string[]): void {
    const { req, res } = this.#exchange;
    this.#writeHead();
    this.#progress = 'all';
    this.#body?.stop();
    const trailers = downstreamTrailers(raw);
    if (trailers.length > 0) res.addTrailers(trailers);
    if (this.#whole === null) res.end(this.#notice);
    else if (this.#whole.length > SMALL_BYTES) res.end(this.#whole);
    else res.end(this.#whole.toString('latin1'), 'latin1');
    drainOrCut(req);
  }

  onBroken(error: Error): void {
    const { req, res, head, target, authorized, log } = this.#exchange;
    this.#body?.stop();
    if (this.#clientGone || res.destroyed) return;
    const isOver = this.#stalled !== null || error instanceof ResponseFault;
    if (this.#again && !isOver && (this.#connection?.served ?? 0) > 0) {
      this.#again = false;
      this.#connection = null;
      this.#connect();
      return;
    }
    const about = { instanceId: target.instanceId, port: target.port, reason: error.message };
    if (res.headersSent) {
      log.debug(about, 'an instance aborted a response');
      return abort(req, res);
    }
    log.debug(about, 'a request did not reach its instance');
    const answer = this.#stalled ?? answerTo(error, target, authorized.route);
    if (isBusy(error)) void this.#answerBusy(answer);
    else sendAnswer(req, res, answer, head.accept);
  }

  async #answerBusy(answer: Answer): Promise<void> {
    const { req, res, head, ofOwner } = this.#exchange;
    const better = await toOwner(ofOwner, { ...this.#exchange, opensLoopback: this.#pool.opensLoopback }, answer);
    if (!this.#clientGone) sendAnswer(req, res, better, head.accept);
  }
}

/** Below this size, copying is cheaper than a second system call. */
const SMALL_BYTES = 16_384;

const MAX_INFORMATIONAL = 16;

/** Node refuses other reason phrases. */
const PLAIN = /^[\t\x20-\x7e]+$/;

export function answerTo(error: Error, target: InstanceTarget, { notebook }: Pick<GatewayRoute, 'notebook'>): Answer {
  if (!(error instanceof EngineFault))
    return error.name === 'TimeoutError' || error.name === 'AbortError' ? unreachable() : died();
  switch (error.kind) {
    case 'busy':
      return target.mount === 'notebook' ? notebookNotListening(notebook) : notListening(target.port);
    case 'not_found':
      return restarting();
    case 'no_capacity':
    case 'rejected':
    case 'unreachable':
    case 'denied':
      return unreachable();
    default:
      return error.kind satisfies never;
  }
}

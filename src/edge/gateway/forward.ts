/**
 * One request passed to an instance and its response passed back, by undici's `dispatch`: chunk by chunk, each side waiting for
 * the other, so that a slow reader or writer holds a few buffers and never a body. A client that leaves aborts the request to the
 * instance; an instance that dies before its head becomes a 502, and later a broken connection, never a response cut short that
 * looks whole.
 */
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { Log } from '../../control/log.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { Admitted } from './admission.ts';
import {
  betweenRuns,
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
import { breakOff } from './client-exchange.ts';
import type { ClientRequest, ClientResponse } from './client-exchange.ts';
import type { IdleWatch, Moving } from './idle.ts';
import { hasBody } from './head.ts';
import type { Head } from './head.ts';
import type { PortPool } from './instance-pools.ts';
import { outwardHeaders, outwardTrailers } from './outward.ts';
import type { RawHeaders } from './outward.ts';
import type { InstanceTarget } from './routing.ts';

export interface Exchange {
  req: ClientRequest;
  res: ClientResponse;
  head: Head;
  target: InstanceTarget;
  admitted: Admitted;
  /** Host that the client used, for addresses in the response. */
  host: string;
  headers: string[];
  /** The client waits with its body until it is told to go on. */
  expectsContinue: boolean;
  log: Log;
  idle: IdleWatch;
  limits: ExchangeLimits;
  /** Called once, when nothing of the exchange is left. */
  onDone: () => void;
}

/** How long nothing may move, by whose turn it is; 0: as long as it likes. */
export interface ExchangeLimits {
  /** To send more of the request, or to take more of the response. */
  clientIdleMs: number;
  /** To take more of the request, or to send more of the response, its head included. */
  instanceIdleMs: number;
}

/** Throws nothing: what goes wrong is answered. */
export function forward(pool: PortPool, exchange: Exchange): void {
  const { req, res, head, target } = exchange;
  if (res.destroyed) {
    exchange.onDone();
    return;
  }
  const body = (req.bodyFollows ?? hasBody(head)) ? new RequestBody(req) : null;
  const passing = new Passing(exchange, body);
  res.once('close', () => {
    passing.clientClosed();
    exchange.idle.done(passing);
    exchange.onDone();
  });
  exchange.idle.watch(passing);
  if (exchange.expectsContinue) res.writeContinue();
  pool.pool.dispatch({ path: target.inwardPath, method: methodOf(req), headers: exchange.headers, body }, passing);
}

const methodOf = (req: ClientRequest): Dispatcher.HttpMethod => req.method ?? 'GET';

class Passing implements Dispatcher.DispatchHandler, Moving {
  readonly #exchange: Exchange;
  readonly #body: RequestBody | null;
  #controller: Dispatcher.DispatchController | null = null;
  #clientGone = false;
  #headSent = false;
  /** A body that came whole with the head is sent with it in one write. */
  #whole: Buffer | null = null;
  #lengthLeft = -1;
  #moves = 0;
  /** What was written waits for the client to take it. */
  #waitsForReader = false;
  #stalled: Answer | null = null;
  #informed = 0;

  constructor(exchange: Exchange, body: RequestBody | null) {
    this.#exchange = exchange;
    this.#body = body;
  }

  moves(): number {
    return this.#moves + (this.#body?.moves ?? 0);
  }

  limitMs(): number {
    // Until it has begun there is a limit of its own, that of dialling.
    if (this.#controller === null) return 0;
    const { clientIdleMs, instanceIdleMs } = this.#exchange.limits;
    return this.#waitsForClient ? clientIdleMs : instanceIdleMs;
  }

  get #waitsForClient(): boolean {
    return this.#waitsForReader || this.#body?.waitsForClient === true;
  }

  /** Once the head is out, only a cut says that it is not whole. */
  expire(): void {
    const limitMs = this.limitMs();
    this.#stalled = this.#waitsForClient ? clientStalled(limitMs) : instanceStalled(limitMs);
    this.#controller?.abort(new Error(this.#stalled.message));
  }

  clientClosed(): void {
    this.#clientGone = true;
    // After the whole response this does nothing.
    if (!this.#exchange.res.writableFinished) this.#controller?.abort(new Error('the client left'));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#clientGone) controller.abort(new Error('the client left'));
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    _parsed: unknown,
    statusText?: string,
  ): void {
    this.#moves += 1;
    const { res, target, admitted, host } = this.#exchange;
    const { headers, contentLength } = outwardHeaders(
      rawOf(controller.rawHeaders),
      status,
      target,
      admitted.owner,
      host,
    );
    if (status < 200) {
      this.#passInformation(status, headers);
      return;
    }
    if (admitted.setCookie !== undefined) headers.push('Set-Cookie', admitted.setCookie);
    if (contentLength !== null) this.#lengthLeft = Number(contentLength);
    if (statusText !== undefined && statusText !== '' && PLAIN.test(statusText))
      res.writeHead(status, statusText, headers);
    else res.writeHead(status, headers);
    // What arrived in the same piece as the head is handed over before this runs, and leaves in one write with it.
    queueMicrotask(() => {
      if (!this.#headSent && this.#whole === null && !res.writableEnded) res.flushHeaders();
    });
  }

  /** 103 Early Hints and its like; a client of HTTP/1.0 knows nothing of them. */
  #passInformation(status: number, headers: readonly string[]): void {
    const { req, res } = this.#exchange;
    // Information flows past backpressure: without end it would fill our memory for a client that does not read.
    if ((this.#informed += 1) > MOST_INFORMATION) return;
    if (status === 102) res.writeProcessing();
    if (status !== 103 || req.httpVersion === '1.0') return;
    const hints: { [name: string]: string[] } = Object.create(null);
    for (let at = 0; at + 1 < headers.length; at += 2) {
      if (headers[at]?.toLowerCase() === 'link') (hints['link'] ??= []).push(headers[at + 1] ?? '');
    }
    try {
      if (hints['link'] !== undefined) res.writeEarlyHints(hints);
    } catch {
      // Node passes only well-formed links; a hint is not worth an error.
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { res } = this.#exchange;
    if (!this.#headSent && chunk.length === this.#lengthLeft) {
      this.#whole = chunk;
      return;
    }
    this.#headSent = true;
    this.#moves += 1;
    if (res.write(chunk)) return;
    controller.pause();
    this.#waitsForReader = true;
    res.once('drain', () => {
      this.#waitsForReader = false;
      this.#moves += 1;
      controller.resume();
    });
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    const { req, res } = this.#exchange;
    const trailers = outwardTrailers(rawOf(controller.rawTrailers));
    if (trailers.length > 0) res.addTrailers(trailers);
    if (this.#whole === null) res.end();
    else if (this.#whole.length > SMALL_BYTES) res.end(this.#whole);
    else res.end(this.#whole.toString('latin1'), 'latin1'); // joined to the head, and so one piece for the system
    drainOrCut(req);
  }

  onResponseError(_controller: unknown, error: Error): void {
    const { req, res, head, target, log } = this.#exchange;
    // undici leaves it open when there was no connection to write it to; the client may still be sending.
    this.#body?.destroy();
    if (this.#clientGone || res.destroyed) return;
    if (res.headersSent) {
      log.debug(
        { instanceId: target.instanceId, port: target.port, reason: error.message },
        'an instance broke off a response',
      );
      breakOff(req, res);
      return;
    }
    log.debug(
      { instanceId: target.instanceId, port: target.port, reason: error.message },
      'a request did not reach its instance',
    );
    sendAnswer(req, res, this.#stalled ?? answerTo(error, target), head.accept);
  }
}

/** Up to here copying a body is cheaper than handing the system two pieces. */
const SMALL_BYTES = 16_384;

/** Responses before the response that a client is told of. */
const MOST_INFORMATION = 16;

/** A reason phrase that Node will write: it refuses others, and clients don't read it. */
const PLAIN = /^[\t\x20-\x7e]*$/;

function rawOf(raw: Dispatcher.DispatchController['rawHeaders']): RawHeaders {
  return Array.isArray(raw) ? raw : [];
}

/** What a failure to reach an instance means to the visitor. */
export function answerTo(error: Error, target: InstanceTarget): Answer {
  if (!(error instanceof EngineFault))
    return error.name === 'TimeoutError' || error.name === 'AbortError' ? unreachable() : died();
  switch (error.kind) {
    case 'busy':
      return target.surface === 'notebook' ? notebookNotListening() : notListening(target.port);
    case 'not_found':
      return betweenRuns();
    case 'no_capacity':
    case 'rejected':
    case 'unreachable':
    case 'denied':
      return unreachable();
    default:
      return error.kind satisfies never;
  }
}

/**
 * The client's body as undici reads it. Not the request itself: undici destroys a body it no longer wants, and with a request
 * that would cut the connection on which the answer still has to go out.
 */
class RequestBody extends Readable {
  /** As `Moving` has it. */
  moves = 0;
  readonly #req: ClientRequest;
  #isWanted = false;
  readonly #onData = (chunk: Buffer): void => {
    this.moves += 1;
    if (this.push(chunk)) return;
    this.#isWanted = false;
    this.#req.pause();
  };
  readonly #onEnd = (): void => {
    if (this.#req.complete) this.push(null);
  };
  readonly #onBroken = (): void => {
    if (!this.#req.complete) this.destroy(new Error('the client broke off its request'));
  };

  constructor(req: ClientRequest) {
    super({ highWaterMark: 65_536 });
    this.#req = req;
    // undici listens only as long as it wants the body, and an error without a listener would end the process.
    this.on('error', () => {});
    req.on('data', this.#onData);
    req.on('end', this.#onEnd);
    req.on('error', this.#onBroken);
    req.on('close', this.#onBroken);
    req.pause();
  }

  get waitsForClient(): boolean {
    return this.#isWanted && !this.destroyed && !this.#req.complete;
  }

  override _read(): void {
    this.moves += 1;
    this.#isWanted = true;
    this.#req.resume();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#req.off('data', this.#onData);
    this.#req.off('end', this.#onEnd);
    this.#req.off('close', this.#onBroken);
    // Nobody wants the rest; `drainOrCut` bounds how long it may come.
    if (!this.#req.complete) this.#req.resume();
    done(error);
  }
}

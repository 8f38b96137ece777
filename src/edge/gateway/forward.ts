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
import { died, drainOrCut, notListening, notRunning, sendAnswer, unreachable } from './answers.ts';
import type { Answer } from './answers.ts';
import type { ClientRequest, ClientResponse } from './client-exchange.ts';
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
  /** Called once, when nothing of the exchange is left. */
  onDone: () => void;
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
    exchange.onDone();
  });
  if (exchange.expectsContinue) res.writeContinue();
  pool.pool.dispatch({ path: target.inwardPath, method: methodOf(req), headers: exchange.headers, body }, passing);
}

const methodOf = (req: ClientRequest): Dispatcher.HttpMethod => req.method ?? 'GET';

class Passing implements Dispatcher.DispatchHandler {
  readonly #exchange: Exchange;
  readonly #body: RequestBody | null;
  #controller: Dispatcher.DispatchController | null = null;
  #clientGone = false;
  #headSent = false;
  /** A body that came whole with the head is sent with it in one write. */
  #whole: Buffer | null = null;
  #lengthLeft = -1;

  constructor(exchange: Exchange, body: RequestBody | null) {
    this.#exchange = exchange;
    this.#body = body;
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
    if (res.write(chunk)) return;
    controller.pause();
    res.once('drain', () => controller.resume());
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
    const { req, res, head, target, admitted, log } = this.#exchange;
    // undici leaves it open when there was no connection to write it to; the client may still be sending.
    this.#body?.destroy();
    if (this.#clientGone || res.destroyed) return;
    if (res.headersSent) {
      log.debug(
        { instanceId: target.instanceId, port: target.port, reason: error.message },
        'an instance broke off a response',
      );
      res.destroy();
      return;
    }
    log.debug(
      { instanceId: target.instanceId, port: target.port, reason: error.message },
      'a request did not reach its instance',
    );
    sendAnswer(req, res, answerTo(error, target, admitted.route.status), head.accept);
  }
}

/** Up to here copying a body is cheaper than handing the system two pieces. */
const SMALL_BYTES = 16_384;

/** A reason phrase that Node will write: it refuses others, and clients don't read it. */
const PLAIN = /^[\t\x20-\x7e]*$/;

function rawOf(raw: Dispatcher.DispatchController['rawHeaders']): RawHeaders {
  return Array.isArray(raw) ? raw : [];
}

/** What a failure to reach an instance means to the visitor. */
export function answerTo(error: Error, target: InstanceTarget, status: string): Answer {
  if (!(error instanceof EngineFault))
    return error.name === 'TimeoutError' || error.name === 'AbortError' ? unreachable() : died();
  switch (error.kind) {
    case 'busy':
      return notListening(target.surface === 'notebook' ? 'the notebook' : `port ${target.port}`);
    case 'not_found':
      return notRunning(status === 'Running' ? 'not running at the moment' : status, true);
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
  readonly #req: ClientRequest;
  readonly #onData = (chunk: Buffer): void => {
    if (!this.push(chunk)) this.#req.pause();
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

  override _read(): void {
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

import type { Log } from '../../control/index.ts';
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
import { Moving, type IdleWatch } from './idle.ts';
import { hasBody } from './head.ts';
import type { Head } from './head.ts';
import type { InstanceConnection, Receiver } from './instance-connection.ts';
import { announcedTrailers, outwardHeaders, outwardTrailers } from './downstream-headers.ts';
import type { PortPool } from './port-pool.ts';
import { requestHead } from './request-head.ts';
import { RequestBody } from './request-body.ts';
import { ResponseFault, type ResponseHead } from './response-head.ts';
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

class Passing extends Moving implements Receiver {
  readonly #pool: PortPool;
  readonly #exchange: Exchange;
  readonly #body: RequestBody | null;
  readonly #method: string;
  #head = '';
  #connection: InstanceConnection | null = null;
  #clientGone = false;
  /** May be asked once more: on a connection at rest that the instance has just closed, it was not heard. */
  #again: boolean;
  /** Of the instance's response: nothing yet, its head, some of its body, all of it. */
  #came: 'nothing' | 'head' | 'body' | 'all' = 'nothing';
  /** Its head, until what came in the same piece was in order: before that there can still be an answer of ours. */
  #unsent: { status: number; reason: string; headers: string[] } | null = null;
  /** A body that came whole with the head is sent with it in one write. */
  #whole: Buffer | null = null;
  #lengthLeft = -1;
  #moves = 0;
  /** What was written waits for the client to take it. */
  #waitsForReader = false;
  #stalled: Answer | null = null;
  #informed = 0;

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
    this.#head = requestHead(this.#method, target.inwardPath, headers, this.#body);
    const rested = this.#pool.rested();
    if (rested === null) this.#connect();
    else this.#send(rested);
  }

  #connect(): void {
    this.#pool.connect().then(
      (connection) => {
        if (this.#clientGone) connection.destroy();
        else this.#send(connection);
      },
      (error: unknown) => this.onBroken(error instanceof Error ? error : new Error(String(error))),
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
    // Until it has begun there is a limit of its own, that of dialling.
    if (this.#connection === null) return 0;
    const { clientIdleMs, instanceIdleMs } = this.#exchange.limits;
    return this.#waitsForClient ? clientIdleMs : instanceIdleMs;
  }

  get #waitsForClient(): boolean {
    return this.#came === 'all' || this.#waitsForReader || this.#body?.waitsForClient === true;
  }

  /** Once the head is out, only a cut says that it is not whole. */
  override expire(): void {
    const { req, res } = this.#exchange;
    if (this.#came === 'all') return breakOff(req, res); // the connection may be another's by now
    const limitMs = this.limitMs();
    this.#stalled = this.#waitsForClient ? clientStalled(limitMs) : instanceStalled(limitMs);
    this.#connection?.destroy(new Error(this.#stalled.message));
  }

  clientClosed(): void {
    this.#clientGone = true;
    if (this.#came !== 'all') this.#connection?.destroy();
  }

  onHead({ status, reason, raw, framing }: ResponseHead): void {
    this.#moves += 1;
    const { req, target, admitted, host } = this.#exchange;
    this.#again = false;
    const { headers, contentLength } = outwardHeaders(raw, status, target, admitted.owner, host);
    if (status < 200) {
      this.#passInformation(status, headers);
      return;
    }
    if (framing === 'chunked' && req.httpVersion !== '1.0') headers.push(...announcedTrailers(raw));
    if (admitted.setCookie !== undefined) headers.push('Set-Cookie', admitted.setCookie);
    if (contentLength !== null) this.#lengthLeft = Number(contentLength);
    this.#unsent = { status, reason, headers };
    this.#came = 'head';
  }

  #writeHead(): void {
    if (this.#unsent === null) return;
    const { status, reason, headers } = this.#unsent;
    this.#unsent = null;
    const { res } = this.#exchange;
    if (reason !== '' && PLAIN.test(reason)) res.writeHead(status, reason, headers);
    else res.writeHead(status, headers);
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

  onData(chunk: Buffer): boolean {
    const { res } = this.#exchange;
    if (this.#came === 'head' && chunk.length === this.#lengthLeft) {
      this.#whole = chunk;
      return true;
    }
    this.#writeHead();
    this.#came = 'body';
    this.#moves += 1;
    if (res.write(chunk)) return true;
    if (this.#waitsForReader) return false;
    this.#waitsForReader = true;
    res.once('drain', () => {
      this.#waitsForReader = false;
      this.#moves += 1;
      // What came last may have filled it: then the connection is another's by now.
      if (this.#came === 'body') this.#connection?.resume();
    });
    return false;
  }

  /** What came in the same piece as the head leaves in one write with it; else the head goes out by itself. */
  onPieceEnd(): void {
    if (this.#came !== 'head' || this.#whole !== null) return;
    this.#writeHead();
    this.#exchange.res.flushHeaders();
  }

  onEnd(raw: string[]): void {
    const { req, res } = this.#exchange;
    this.#writeHead();
    this.#came = 'all';
    this.#body?.stop();
    const trailers = outwardTrailers(raw);
    if (trailers.length > 0) res.addTrailers(trailers);
    if (this.#whole === null) res.end();
    else if (this.#whole.length > SMALL_BYTES) res.end(this.#whole);
    else res.end(this.#whole.toString('latin1'), 'latin1'); // joined to the head, and so one piece for the system
    drainOrCut(req);
  }

  onBroken(error: Error): void {
    const { req, res, head, target, log } = this.#exchange;
    this.#body?.stop();
    if (this.#clientGone || res.destroyed) return;
    const isOver = this.#stalled !== null || error instanceof ResponseFault;
    if (this.#again && !isOver && (this.#connection?.served ?? 0) > 0) {
      this.#again = false;
      this.#connection = null;
      this.#connect();
      return;
    }
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

/**
 * WebSockets: one connection to the instance for each, on which the request is sent with a head of our making. Only a 101 makes a
 * tunnel; any other answer is passed on as the response it is and the connection closed, so that nobody gets a raw line to an
 * instance that did not agree to it. In a tunnel bytes are piped both ways, with an end passed as an end and an error as an end of
 * everything.
 *
 * Only `websocket` is upgraded. Other protocols, `h2c` above all, would carry further requests past every check of the gateway.
 */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Admitted } from './admission.ts';
import { sendRawAnswer } from './answers.ts';
import { reset } from './client-exchange.ts';
import { answerTo, type ExchangeLimits } from './forward.ts';
import { outwardHeaders } from './downstream-headers.ts';
import { Moving, type IdleWatch } from './idle.ts';
import type { PortPool } from './port-pool.ts';
import { requestHead } from './request-head.ts';
import { ResponseFault, type ResponseHead } from './response-head.ts';
import { ResponseReader, type ResponseSink } from './response-reader.ts';
import type { InstanceTarget } from './routing.ts';

export interface Tunnel {
  client: Duplex;
  /** What came of the client behind the head of its request. */
  early: Buffer;
  target: InstanceTarget;
  admitted: Admitted;
  host: string;
  accept: string;
  headers: string[];
  idle: IdleWatch;
  limits: TunnelLimits & ExchangeLimits;
}

export interface TunnelLimits {
  /** A tunnel on which nothing moves, either way, is closed after as long; 0: never. */
  tunnelIdleMs: number;
  /** Until the instance must have answered the upgrade. */
  handshakeMs: number;
  /** A tunnel of which one side has ended is closed after as long. */
  halfOpenMs: number;
  maxHeaderBytes: number;
}

/** `onDone` is called once, when nothing of the tunnel is left. What opened it is not held for as long as it lasts. */
export function tunnel(pool: PortPool, wish: Tunnel, onDone: () => void): void {
  const { client, target, headers } = wish;
  if (client.closed) onDone();
  else client.once('close', onDone);
  const head = requestHead('GET', target.inwardPath, [...headers, 'Upgrade', 'websocket'], null, 'Upgrade');
  pool.dial().then(
    (upstream) => {
      endByError(upstream);
      if (client.destroyed) upstream.destroy();
      else if (upstream.destroyed) refuse(wish, new Error('the connection ended at once'));
      else new Handshake(upstream, wish).begin(head);
    },
    (error: unknown) => refuse(wish, error instanceof Error ? error : new Error(String(error))),
  );
}

/** What it means to the client, the stages below say. */
const endByError = (upstream: Duplex): void => void upstream.on('error', () => upstream.destroy());

function refuse({ client, target, accept }: Tunnel, error: Error): void {
  if (!client.destroyed) sendRawAnswer(client, answerTo(error, target), accept);
}

class Handshake implements ResponseSink {
  readonly #upstream: Duplex;
  readonly #wish: Tunnel;
  readonly #reader: ResponseReader;
  readonly #timer: NodeJS.Timeout;
  readonly #moving: Moving;
  #came: 'nothing' | 'upgrade' | 'head' | 'all' = 'nothing';
  readonly #onPiece = (piece: Buffer): void => this.#take(piece);
  readonly #onUpstreamEnd = (): void => {
    this.#reader.end();
    this.#upstream.destroy();
  };
  readonly #onUpstreamClose = (): void => this.#fail(new Error('the instance closed the connection'));
  readonly #onClientClose = (): void => {
    clearTimeout(this.#timer);
    this.#wish.idle.done(this.#moving);
    this.#upstream.destroy();
  };

  constructor(upstream: Duplex, wish: Tunnel) {
    this.#upstream = upstream;
    this.#wish = wish;
    this.#reader = new ResponseReader(wish.limits.maxHeaderBytes);
    this.#moving = new MovingAnswer(wish, () => this.#came === 'all');
    this.#timer = setTimeout(() => this.#fail(new Error('no answer to the upgrade')), wish.limits.handshakeMs);
  }

  begin(head: string): void {
    this.#wish.client.once('close', this.#onClientClose);
    this.#upstream.on('data', this.#onPiece).on('end', this.#onUpstreamEnd).on('close', this.#onUpstreamClose);
    this.#reader.expect('GET', this, true);
    this.#upstream.write(head, 'latin1');
  }

  onHead(head: ResponseHead): void {
    const { client } = this.#wish;
    if (head.status < 200 && head.status !== 101) return;
    if (head.status === 101 && protocolOf(head)?.toLowerCase() !== 'websocket')
      throw new ResponseFault('a switch to what was not asked for');
    clearTimeout(this.#timer);
    this.#came = head.status === 101 ? 'upgrade' : 'head';
    if (this.#came === 'head') this.#wish.idle.watch(this.#moving);
    // Whatever length another answer has, the connection ends with it.
    const more = head.status === 101 ? ['Connection', 'Upgrade', 'Upgrade', 'websocket'] : ['Connection', 'close'];
    client.write(headOf(head, this.#wish, more), 'latin1');
  }

  onData(chunk: Buffer): void {
    const { client } = this.#wish;
    if (client.write(chunk) || this.#came === 'upgrade') return;
    this.#upstream.pause();
    client.once('drain', () => this.#upstream.resume());
  }

  onEnd(): void {
    this.#came = 'all';
    this.#upstream.destroy();
    this.#wish.client.end();
  }

  #take(piece: Buffer): void {
    try {
      this.#reader.feed(piece);
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    if (this.#came !== 'upgrade') return;
    const { client, early } = this.#wish;
    client.off('close', this.#onClientClose);
    this.#upstream.off('data', this.#onPiece).off('end', this.#onUpstreamEnd).off('close', this.#onUpstreamClose);
    if (early.length > 0) this.#upstream.write(early);
    pipeBoth(this.#upstream, this.#wish);
  }

  #fail(error: Error): void {
    clearTimeout(this.#timer);
    this.#upstream.destroy();
    const before = this.#came;
    this.#came = 'all';
    if (before === 'nothing') refuse(this.#wish, error);
    else if (before !== 'all') reset(this.#wish.client);
  }
}

function protocolOf({ raw }: ResponseHead): string | undefined {
  for (let at = 0; at + 1 < raw.length; at += 2) if (raw[at]?.toLowerCase() === 'upgrade') return raw[at + 1];
  return undefined;
}

function headOf({ status, reason, raw }: ResponseHead, { target, admitted, host }: Tunnel, more: string[]): string {
  const { headers } = outwardHeaders(raw, status, target, admitted.owner, host);
  let head = `HTTP/1.1 ${status} ${reason.replace(/[^\t\x20-\x7e]/g, '')}\r\n`;
  for (const list of [headers, more]) {
    for (let at = 0; at + 1 < list.length; at += 2) head += `${list[at]}: ${list[at + 1]}\r\n`;
  }
  return `${head}\r\n`;
}

/** As `pipe` does, in a third of its memory: an end as an end, and no more read than is taken. */
function pass(from: Duplex, to: Duplex): void {
  const goOn = (): void => void from.resume();
  from.on('data', (chunk: Buffer) => {
    if (to.write(chunk)) return;
    from.pause();
    to.once('drain', goOn);
  });
  from.on('end', () => to.end());
}

function pipeBoth(upstream: Duplex, { client, idle, limits }: Tunnel): void {
  if (upstream instanceof Socket) upstream.setNoDelay(true).setKeepAlive(true, 60_000);
  let timer: NodeJS.Timeout | null = null;
  const half = (): void => {
    timer ??= setTimeout(() => client.destroy(), limits.halfOpenMs);
  };
  pass(client, upstream);
  pass(upstream, client);
  client.on('end', half);
  upstream.on('end', half);
  const moving = new MovingTunnel(client, limits);
  idle.watch(moving);
  client.once('close', () => {
    idle.done(moving);
    if (timer !== null) clearTimeout(timer);
    upstream.destroy();
  });
  upstream.once('close', () => {
    // What was read of it may still wait to be written.
    if (upstream.readableEnded) client.end();
    else client.destroy();
  });
}

const movesOf = (client: Duplex): number => (client instanceof Socket ? client.bytesRead + client.bytesWritten : 0);

/** Of an instance that did not agree: who reads nothing of its answer, or never closes behind it, keeps a place of it. */
class MovingAnswer extends Moving {
  readonly #wish: Tunnel;
  readonly #isWhole: () => boolean;

  constructor(wish: Tunnel, isWhole: () => boolean) {
    super();
    this.#wish = wish;
    this.#isWhole = isWhole;
  }

  override moves(): number {
    return movesOf(this.#wish.client);
  }

  override limitMs(): number {
    const { client, limits } = this.#wish;
    return client.writableNeedDrain || this.#isWhole() ? limits.clientIdleMs : limits.instanceIdleMs;
  }

  override expire(): void {
    reset(this.#wish.client);
  }
}

class MovingTunnel extends Moving {
  readonly #client: Duplex;
  readonly #limits: TunnelLimits;

  constructor(client: Duplex, limits: TunnelLimits) {
    super();
    this.#client = client;
    this.#limits = limits;
  }

  override moves(): number {
    return movesOf(this.#client);
  }

  override limitMs(): number {
    return this.#client instanceof Socket ? this.#limits.tunnelIdleMs : 0;
  }

  override expire(): void {
    this.#client.destroy();
  }
}

/**
 * WebSocket tunnels, made only by a 101: no client gets a raw connection without the instance's
 * consent. Only `websocket` is upgraded; `h2c` would bypass every check.
 */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { asError } from '../../domain/kernel/unknown-error.ts';
import { sendRawAnswer } from './answers.ts';
import { reset, type ClientResponse } from './client-exchange.ts';
import { answerTo, type Exchange } from './forward.ts';
import { downstreamHeaders } from './downstream-headers.ts';
import { IdleWatched } from './idle-timeouts.ts';
import type { PortPool } from './instance-pools.ts';
import { requestHead } from './upstream-headers.ts';
import { ResponseFault, type ResponseHead } from './response-head.ts';
import { ResponseReader, type ResponseSink } from './response-reader.ts';

export interface TunnelRequest extends Pick<
  Exchange,
  'target' | 'authorized' | 'host' | 'headers' | 'idle' | 'limits'
> {
  client: Duplex;
  early: Buffer;
  accept: string;
}

/** `onDone` is called once, after the tunnel ended. The opening request is not retained. */
export function tunnel(pool: PortPool, request: TunnelRequest, onDone: () => void): void {
  const { client, target, headers } = request;
  if (client.closed) onDone();
  else client.once('close', onDone);
  const head = requestHead('GET', target.upstreamPath, [...headers, 'Upgrade', 'websocket'], null, 'Upgrade');
  pool.dial().then(
    (upstream) => {
      endByError(upstream);
      if (client.destroyed) upstream.destroy();
      else if (upstream.destroyed) refuse(request, new Error('the connection was closed at once'));
      else new Handshake(upstream, request).begin(head);
    },
    (error: unknown) => refuse(request, asError(error)),
  );
}

const endByError = (upstream: Duplex): void => void upstream.on('error', () => upstream.destroy());

function refuse({ client, target, accept }: TunnelRequest, error: Error): void {
  if (!client.destroyed) sendRawAnswer(client, answerTo(error, target, { notebook: null }), accept);
}

class Handshake implements ResponseSink {
  readonly #upstream: Duplex;
  readonly #request: TunnelRequest;
  readonly #reader: ResponseReader;
  readonly #timer: NodeJS.Timeout;
  readonly #moving: IdleWatched;
  #came: 'nothing' | 'upgrade' | 'head' | 'all' = 'nothing';
  readonly #onPiece = (piece: Buffer): void => this.#take(piece);
  readonly #onUpstreamEnd = (): void => {
    this.#reader.end();
    this.#upstream.destroy();
  };
  readonly #onUpstreamClose = (): void => this.#fail(new Error('the instance closed the connection'));
  readonly #onClientClose = (): void => {
    clearTimeout(this.#timer);
    this.#request.idle.done(this.#moving);
    this.#upstream.destroy();
  };

  constructor(upstream: Duplex, request: TunnelRequest) {
    this.#upstream = upstream;
    this.#request = request;
    this.#reader = new ResponseReader(request.limits.maxHeaderBytes);
    const { client, limits } = request;
    const waitsForClient = (): boolean => client.writableNeedDrain || this.#came === 'all';
    const limitMs = (): number => (waitsForClient() ? limits.clientIdleMs : limits.instanceIdleMs);
    // A refused upgrade occupies a slot until the client has read the answer.
    this.#moving = new WatchedClient(client, limitMs, () => reset(client));
    this.#timer = setTimeout(() => this.#fail(new Error('no answer to the upgrade')), request.limits.handshakeMs);
  }

  begin(head: string): void {
    this.#request.client.once('close', this.#onClientClose);
    this.#upstream.on('data', this.#onPiece).on('end', this.#onUpstreamEnd).on('close', this.#onUpstreamClose);
    this.#reader.expect('GET', this, true);
    this.#upstream.write(head, 'latin1');
  }

  onHead(head: ResponseHead): void {
    const { client } = this.#request;
    if (head.status < 200 && head.status !== 101) return;
    if (head.status === 101 && protocolOf(head)?.toLowerCase() !== 'websocket')
      throw new ResponseFault('a switch to another protocol than requested');
    clearTimeout(this.#timer);
    this.#came = head.status === 101 ? 'upgrade' : 'head';
    if (this.#came === 'head') this.#request.idle.watch(this.#moving);
    const more = head.status === 101 ? ['Connection', 'Upgrade', 'Upgrade', 'websocket'] : ['Connection', 'close'];
    client.write(headOf(head, this.#request, more), 'latin1');
  }

  onData(chunk: Buffer): void {
    const { client } = this.#request;
    if (client.write(chunk) || this.#came === 'upgrade') return;
    this.#upstream.pause();
    client.once('drain', () => this.#upstream.resume());
  }

  onEnd(): void {
    this.#came = 'all';
    this.#upstream.destroy();
    this.#request.client.end();
  }

  #take(piece: Buffer): void {
    try {
      this.#reader.feed(piece);
    } catch (error) {
      this.#fail(asError(error));
      return;
    }
    if (this.#came !== 'upgrade') return;
    const { client, early } = this.#request;
    client.off('close', this.#onClientClose);
    this.#upstream.off('data', this.#onPiece).off('end', this.#onUpstreamEnd).off('close', this.#onUpstreamClose);
    if (early.length > 0) this.#upstream.write(early);
    pipeBoth(this.#upstream, this.#request);
  }

  #fail(error: Error): void {
    clearTimeout(this.#timer);
    this.#upstream.destroy();
    const before = this.#came;
    this.#came = 'all';
    if (before === 'nothing') refuse(this.#request, error);
    else if (before !== 'all') reset(this.#request.client);
  }
}

function protocolOf({ raw }: ResponseHead): string | undefined {
  for (let at = 0; at + 1 < raw.length; at += 2) if (raw[at]?.toLowerCase() === 'upgrade') return raw[at + 1];
  return undefined;
}

function headOf(
  { status, reason, raw }: ResponseHead,
  { target, authorized, host }: TunnelRequest,
  more: string[],
): string {
  const { headers } = downstreamHeaders(raw, status, target, authorized.owner, host);
  let head = `HTTP/1.1 ${status} ${reason.replace(/[^\t\x20-\x7e]/g, '')}\r\n`;
  for (const list of [headers, more]) {
    for (let at = 0; at + 1 < list.length; at += 2) head += `${list[at]}: ${list[at + 1]}\r\n`;
  }
  return `${head}\r\n`;
}

/** Like `pipe` in a third of its memory. */
function pass(from: Duplex, to: Duplex): void {
  const goOn = (): void => void from.resume();
  from.on('data', (chunk: Buffer) => {
    if (to.write(chunk)) return;
    from.pause();
    to.once('drain', goOn);
  });
  from.on('end', () => to.end());
}

function pipeBoth(upstream: Duplex, { client, idle, limits }: TunnelRequest): void {
  if (upstream instanceof Socket) upstream.setNoDelay(true).setKeepAlive(true, 60_000);
  let timer: NodeJS.Timeout | null = null;
  const half = (): void => {
    timer ??= setTimeout(() => client.destroy(), limits.halfOpenMs);
  };
  pass(client, upstream);
  pass(upstream, client);
  client.on('end', half);
  upstream.on('end', half);
  const limitMs = client instanceof Socket ? limits.tunnelIdleMs : 0;
  const moving = new WatchedClient(
    client,
    () => limitMs,
    () => client.destroy(),
  );
  idle.watch(moving);
  client.once('close', () => {
    idle.done(moving);
    if (timer !== null) clearTimeout(timer);
    upstream.destroy();
  });
  upstream.once('close', () => {
    if (upstream.readableEnded) client.end();
    else client.destroy();
  });
}

/** Watches the bytes of a client's connection, of which other streams than sockets count none. */
class WatchedClient extends IdleWatched {
  readonly #client: Duplex;
  readonly #limitMs: () => number;
  readonly #expire: () => void;

  constructor(client: Duplex, limitMs: () => number, expire: () => void) {
    super();
    this.#client = client;
    this.#limitMs = limitMs;
    this.#expire = expire;
  }

  override moves(): number {
    return this.#client instanceof Socket ? this.#client.bytesRead + this.#client.bytesWritten : 0;
  }

  override limitMs(): number {
    return this.#limitMs();
  }

  override expire(): void {
    this.#expire();
  }
}

/**
 * Whether earlier requests are answered before an upgrade. If not, ends the connection: Node would
 * hand over the socket with their responses pending forever.
 */
export function isFree(client: Duplex, responses: readonly ClientResponse[]): boolean {
  if (responses.length < 2 && responses.every((res) => res.writableEnded)) return true;
  for (const res of responses) res.destroy();
  client.destroy();
  return false;
}

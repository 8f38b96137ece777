/**
 * WebSockets: one connection to the instance for each, on which the request is sent with a head of our making. Only a 101 makes a
 * tunnel; any other answer is passed on as the response it is and the connection closed, so that nobody gets a raw line to an
 * instance that did not agree to it. In a tunnel bytes are piped both ways, with an end passed as an end and an error as an end of
 * everything.
 *
 * Only `websocket` is upgraded. Other protocols, `h2c` above all, would carry further requests past every check of the gateway.
 */
import { request } from 'node:http';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Admitted } from './admission.ts';
import { sendRawAnswer } from './answers.ts';
import { reset } from './client-exchange.ts';
import { answerTo } from './forward.ts';
import { outwardHeaders } from './outward.ts';
import type { IdleWatch, Moving } from './idle.ts';
import type { PortPool } from './instance-pools.ts';
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
  limits: TunnelLimits;
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

/** The returned promise settles when nothing of the tunnel is left, and never rejects. */
export async function tunnel(pool: PortPool, wish: Tunnel): Promise<void> {
  const { client, target } = wish;
  const closed = new Promise<void>((resolve) => {
    if (client.closed) resolve();
    else client.once('close', () => resolve());
  });
  let upstream: Duplex;
  try {
    upstream = await pool.dial();
  } catch (error) {
    const fault = error instanceof Error ? error : new Error(String(error));
    if (!client.destroyed) sendRawAnswer(client, answerTo(fault, target), wish.accept);
    await closed;
    return;
  }
  upstream.on('error', () => upstream.destroy()); // what it means to the client, the two stages below say
  if (client.destroyed) {
    upstream.destroy();
    return;
  }
  shakeHands(upstream, wish);
  await closed;
  upstream.destroy();
}

function shakeHands(upstream: Duplex, wish: Tunnel): void {
  const { client, target, limits } = wish;
  let answered = false;
  const asked: ClientRequest = request({
    createConnection: () => upstream,
    method: 'GET',
    path: target.inwardPath,
    headers: [...wish.headers, 'Connection', 'Upgrade', 'Upgrade', 'websocket'],
    maxHeaderSize: limits.maxHeaderBytes,
  });
  const fail = (error: Error): void => {
    upstream.destroy();
    if (answered || client.destroyed) client.destroy();
    else sendRawAnswer(client, answerTo(error, target), wish.accept);
    answered = true;
  };
  const timer = setTimeout(() => fail(new Error('no answer to the upgrade')), limits.handshakeMs);
  const onClientGone = (): void => {
    clearTimeout(timer);
    asked.destroy();
  };
  client.once('close', onClientGone);
  asked.on('error', fail);
  asked.on('upgrade', (response, _socket, first) => {
    if (response.headers.upgrade?.toLowerCase() !== 'websocket')
      return fail(new Error('a switch to what was not asked for'));
    clearTimeout(timer);
    client.off('close', onClientGone);
    answered = true;
    client.write(headOf(response, wish, ['Connection', 'Upgrade', 'Upgrade', 'websocket']));
    if (first.length > 0) client.write(first);
    if (wish.early.length > 0) upstream.write(wish.early);
    pipeBoth(upstream, wish);
  });
  asked.on('response', (response) => {
    if (response.statusCode === 101) return fail(new Error('a switch to nothing'));
    clearTimeout(timer);
    answered = true;
    // Whatever length it has, the connection ends with it.
    client.write(headOf(response, wish, ['Connection', 'close']));
    response.on('error', () => reset(client));
    response.on('close', () => {
      if (!response.complete) reset(client);
    });
    response.pipe(client);
  });
  asked.end();
}

function headOf(response: IncomingMessage, wish: Tunnel, more: string[]): string {
  const status = response.statusCode ?? 502;
  const { headers } = outwardHeaders(response.rawHeaders, status, wish.target, wish.admitted.owner, wish.host);
  const message = (response.statusMessage ?? '').replace(/[^\t\x20-\x7e]/g, '');
  let head = `HTTP/1.1 ${status} ${message}\r\n`;
  for (const list of [headers, more]) {
    for (let at = 0; at + 1 < list.length; at += 2) head += `${list[at]}: ${list[at + 1]}\r\n`;
  }
  return `${head}\r\n`;
}

function pipeBoth(upstream: Duplex, { client, idle, limits }: Tunnel): void {
  if (upstream instanceof Socket) upstream.setNoDelay(true).setKeepAlive(true, 60_000);
  let timer: NodeJS.Timeout | null = null;
  const half = (): void => {
    timer ??= setTimeout(() => client.destroy(), limits.halfOpenMs);
  };
  client.pipe(upstream);
  upstream.pipe(client);
  client.on('end', half);
  upstream.on('end', half);
  const moving: Moving = {
    moves: () => (client instanceof Socket ? client.bytesRead + client.bytesWritten : 0),
    limitMs: () => (client instanceof Socket ? limits.tunnelIdleMs : 0),
    expire: () => client.destroy(),
  };
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

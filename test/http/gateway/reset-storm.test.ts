/**
 * 500 resets of either side at every stage of requests, uploads and WebSockets (long: 5,000, soak:
 * 100,000) leak no socket, handle or memory, and the next client is served.
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { atLevel } from '../../fixtures/level.ts';
import { ask, idOf, onCleanup, serveTcp, start, until } from './harness.ts';

const RESETS = atLevel({ short: 500, long: 5_000, soak: 100_000 });
const AT_ONCE = 50;
const MEMORY_BYTES = 4 << 20;

const A = idOf('a');
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const HANDSHAKE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
const SWITCH = 'HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

const reset = (socket: Socket): void => void socket.resetAndDestroy();
const soon = (socket: Socket): void => void setImmediate(() => reset(socket));

/** Behaviour of the instance per request; `isSwitch` for a WebSocket. */
const deaths: ((socket: Socket, isSwitch: boolean) => void)[] = [
  (socket) => reset(socket),
  (socket) => void socket.write('HTTP/1.1 200 OK\r\nConte', () => soon(socket)),
  (socket) => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na part', () => soon(socket)),
  (socket) => void socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\na par', () => soon(socket)),
  (socket) => void socket.write('HTTP/1.1 200 OK\r\n\r\nto the end', () => soon(socket)),
  (socket, isSwitch) => void socket.write(isSwitch ? `${SWITCH}hello` : OK, () => soon(socket)),
  (socket, isSwitch) => {
    socket.write(isSwitch ? `${SWITCH}hello` : `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`);
    if (isSwitch) socket.pipe(socket);
  },
  (socket) => void socket.write(OK),
  () => {},
];

const asked: ((n: number) => string)[] = [
  (n) => `GET /forward/${A}/80/${n} HTTP/1.1\r\nHost: h\r\n${HANDSHAKE}\r\nearly`,
  (n) => `GET /forward/${A}/80/${n} HTTP/1.1\r\nHost: h\r\n\r\n`,
  (n) => `POST /forward/${A}/80/${n} HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\na part`,
  (n) => `POST /forward/${A}/80/${n} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na part\r\n`,
  (n) => `GET /forward/${A}/80/${n} HTTP/1.1\r\nHos`,
];

const collect = ((): (() => void) => {
  setFlagsFromString('--expose-gc');
  const gc: unknown = runInNewContext('gc');
  if (typeof gc !== 'function') throw new Error('the garbage can not be collected');
  return () => void Reflect.apply(gc, undefined, []);
})();

/** Measured once all requests have ended. */
async function bufferedBytes(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    collect();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const handles = (): number => process.getActiveResourcesInfo().filter((kind) => kind.startsWith('TCP')).length;

test(`${RESETS} resets of either side at every stage leak nothing and crash nothing`, async () => {
  const faults: unknown[] = [];
  const onFault = (error: unknown): void => void faults.push(error);
  process.on('unhandledRejection', onFault);
  onCleanup(async () => void process.off('unhandledRejection', onFault));
  let connections = 0;
  const inside = await serveTcp((socket) => {
    socket.once('end', () => socket.end());
    // Resets every tenth connection before the request.
    if (connections++ % 10 === 0) return reset(socket);
    socket.on('data', (chunk: Buffer) => {
      const head = /^(?:GET|POST) \/(\d+) HTTP/.exec(chunk.toString('latin1', 0, 40));
      if (head) deaths[Number(head[1]) % deaths.length]?.(socket, chunk.includes('Upgrade'));
    });
  });
  const harness = await start({ limits: { idleConnectionMs: 200, dialMs: 500 } });
  harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
  let open = 0;
  let fromOutside = 0;
  const one = (n: number): void => {
    open += 1;
    const socket = connect(harness.port, '127.0.0.1');
    socket.on('error', () => {}).once('close', () => (open -= 1));
    socket.once('connect', () => {
      socket.write(asked[n % asked.length]?.(n) ?? '');
      const leave = (): void => {
        if (!socket.destroyed) fromOutside += 1;
        reset(socket);
      };
      const how = n % 7;
      if (how === 0) leave();
      else if (how === 1) setImmediate(leave);
      else if (how < 4) setTimeout(leave, how);
      else {
        // Leaves after the response, or after a while.
        socket.once('data', leave);
        setTimeout(leave, 20);
      }
    });
  };
  const storm = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n += 1) {
      one(n);
      if (n % AT_ONCE === AT_ONCE - 1) await until('half of the clients are closed', () => open < AT_ONCE / 2);
    }
    await until('all clients are closed', () => open === 0);
    await until('no connection inside is open', () => harness.dialled.size === 0 && inside.sockets.size === 0);
    await until('every request has ended', () => harness.began.every(({ done }) => done));
    harness.began.length = 0;
    harness.logged.length = 0;
  };
  // Warm-up of lazy initialization.
  await storm(1_000);
  const before = { bytes: await bufferedBytes(), handles: handles() };
  fromOutside = 0;
  connections = 0;
  await storm(RESETS);
  expect(faults).toEqual([]);
  expect(fromOutside).toBeGreaterThan(RESETS / 2);
  expect(connections).toBeGreaterThan(RESETS / 10);
  await until('no handle is left', () => handles() <= before.handles);
  const leftBytes = async (): Promise<number> => (await bufferedBytes()) - before.bytes;
  // Buffers live until their timeouts.
  await expect.poll(leftBytes, { interval: 500 }).toBeLessThan(MEMORY_BYTES);
  const well = await serveTcp((socket) => void socket.on('data', () => socket.write(OK)));
  harness.add(A, { publicPorts: [80], ports: { 80: well.port } });
  expect(await ask(harness, `/forward/${A}/80/`)).toMatchObject({ status: 200, body: 'ok' });
}, 1_200_000);

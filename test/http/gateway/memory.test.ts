/** Cached request headers must not retain the text they were cut from. */
import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { makeVerifiedCache } from '../../../src/control/access/verified-cache.ts';
import { detachedCopy, type AccessGrant } from '../../../src/edge/gateway/admission.ts';
import { Credentials } from '../../../src/edge/gateway/credentials.ts';
import { makeCache } from '../../../src/async/cache.ts';
import { ALICE, idOf, ISSUER, jwtOf, onCleanup, serveTcp, start, until } from './harness.ts';

const COUNT = 1_000;
const HEADER_BYTES = 30_000;
/** A tenth of the headers' size. */
const MAX_RETAINED_BYTES = (COUNT * HEADER_BYTES) / 10;

setFlagsFromString('--expose-gc');
const gc: unknown = runInNewContext('gc');

function heapBytes(): number {
  if (typeof gc !== 'function') throw new Error('the garbage can not be collected');
  Reflect.apply(gc, undefined, []);
  return process.memoryUsage().heapUsed;
}

/** Sliced from a header, as a parser does. */
const cutOut = (at: number): string =>
  Buffer.from(`secret-of-session-${at}`.padEnd(HEADER_BYTES, 'x')).toString('latin1').slice(0, 40);

async function retainedBytes(keep: (secret: string) => unknown): Promise<number> {
  const before = heapBytes();
  const stored: unknown[] = [];
  for (let at = 0; at < COUNT; at += 1) stored.push(await keep(cutOut(at)));
  const bytes = heapBytes() - before;
  expect(stored).toHaveLength(COUNT);
  return bytes;
}

const asCredential = (secret: string, kind: 'token' | 'apiKey'): AccessGrant => ({
  kind: 'credential',
  credential: kind === 'token' ? { kind, token: secret } : { kind, key: secret },
  accountId: ALICE,
});

test('copies secrets, so that they do not retain their header', async () => {
  expect(await retainedBytes((secret) => ({ secret }))).toBeGreaterThan(MAX_RETAINED_BYTES);
  const keeps: [string, (secret: string) => unknown][] = [
    ['session', (secret) => detachedCopy({ kind: 'session', secret, accountId: ALICE })],
    ['share', (secret) => detachedCopy({ kind: 'share', token: secret })],
    ['token', (secret) => detachedCopy(asCredential(secret, 'token'))],
    ['key', (secret) => detachedCopy(asCredential(secret, 'apiKey'))],
  ];
  for (const [name, keep] of keeps) expect(await retainedBytes(keep), name).toBeLessThan(MAX_RETAINED_BYTES);
});

test('caches answers without retaining request headers', async () => {
  const cache = makeCache({ load: async () => 'somebody', elapsed: () => 1, ttlMs: 1_000, maxEntries: COUNT });
  expect(await retainedBytes((secret) => cache.get(secret))).toBeLessThan(MAX_RETAINED_BYTES);
  const known = makeVerifiedCache({
    time: { now: () => 1, elapsed: () => 1 },
    maxEntries: COUNT,
    verify: async () => ({ subject: 'somebody', expiresAtMs: 1_000 }),
  });
  expect(await retainedBytes((secret) => known.find(secret))).toBeLessThan(MAX_RETAINED_BYTES);
  // Still cached.
  expect(known.fresh(cutOut(0))).toBe('somebody');
});

test('caches only credentials of plausible length', () => {
  const credentials = new Credentials(ISSUER);
  const short = { authorization: `Bearer ${jwtOf(ALICE)}`, apiKey: null };
  expect(credentials.presentedBy(short)).toBe(credentials.presentedBy(short));
  const long = { authorization: `Bearer ${'x'.repeat(5_000)}`, apiKey: null };
  expect(credentials.presentedBy(long)).toEqual(credentials.presentedBy(long));
  expect(credentials.presentedBy(long)).not.toBe(credentials.presentedBy(long));
  expect(credentials.presentedBy(short)?.credential).toEqual({ kind: 'token', token: jwtOf(ALICE) });
  expect(credentials.presentedBy({ authorization: null, apiKey: null })).toBeNull();
});

test('an open WebSocket does not retain its URL and cookies', async () => {
  const inside = await serveTcp((socket) => {
    socket.once('data', () => socket.write('HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'));
  });
  const harness = await start();
  const id = idOf('a');
  harness.add(id, { ports: { 80: inside.port } });
  // Long enough for V8 to slice instead of copy.
  const secret = 's'.repeat(43);
  harness.sessions.set(secret, ALICE);
  const sockets: Socket[] = [];
  onCleanup(async () => {
    for (const socket of sockets) socket.destroy();
  });
  async function open(count: number, more: number): Promise<() => number> {
    const before = heapBytes();
    let opened = 0;
    for (let at = 0; at < count; at += 1) {
      const socket = connect(harness.port, '127.0.0.1').once('data', () => (opened += 1));
      sockets.push(socket);
      socket.write(
        `GET /forward/${id}/80/?${'x'.repeat(more)} HTTP/1.1\r\nHost: h\r\nOrigin: http://h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
          `Cookie: berth_gateway=${secret}; a=${'x'.repeat(more)}\r\n\r\n`,
      );
    }
    await until('all WebSockets are open', () => opened === count);
    return () => heapBytes() - before;
  }
  const [count, more] = [150, 15_000];
  await open(count, 1);
  const short = (await open(count, 1))();
  const grown = await open(count, more);
  // The last requests may still be under way.
  await expect.poll(() => (grown() - short) / (count * more), { timeout: 120_000 }).toBeLessThan(0.3);
});

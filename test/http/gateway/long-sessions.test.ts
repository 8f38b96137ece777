/**
 * A tab open for days, on a simulated clock: autosave works while the tab is in use and the owner
 * allows access.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import WebSocket from 'ws';
import type { Caller, Forwarding, IdentifyCredential } from '../../../src/control/index.ts';
import { followLink } from '../../../src/edge/link/follow-control.ts';
import { serveLink } from '../../../src/edge/link/serve.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { openTempStore } from '../../fixtures/store.ts';
import { ask, noBar, onCleanup, start, type Harness } from './harness.ts';

const HOUR_MS = 3_600_000;
const PASSWORD = 'correct horse';
const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

interface Fixture {
  world: World;
  harness: Harness;
  clock: { aheadMs: number };
}

type Way = 'in one process' | 'in a process of its own';

/** Real control with a simulated clock, and the gateway wired as in production. */
async function open(way: Way, revocationMs = 30_000): Promise<Fixture> {
  const clock = { aheadMs: 0 };
  const { store, remove } = await openTempStore();
  onCleanup(remove);
  const world = await makeWorld(store, { clock });
  const { control, access } = world.running;
  const authenticate: IdentifyCredential = (credential) => access.authenticate(credential);
  const { forwarding } = control;
  const ways =
    way === 'in one process' ? { forwarding, authenticate } : await linked({ world, forwarding, authenticate, clock });
  return { world, harness: await start({ ...ways, limits: { revocationMs } }), clock };
}

async function linked(given: Omit<Fixture, 'harness'> & { forwarding: Forwarding; authenticate: IdentifyCredential }) {
  const { world, forwarding, authenticate, clock } = given;
  const folder = await mkdtemp(join(tmpdir(), 'berth-long-'));
  const path = join(folder, 'gateway.sock');
  const { routeTable } = world.running.control;
  const link = await serveLink({
    address: path,
    routeTable,
    forwarding,
    notebookBar: noBar,
    authenticate,
    wake: world.running.control.wakes.request,
    issuer: 'https://berth.test',
    ownRegionId: 'own',
    regions: { current: () => [], onChange: () => () => {} },
    log,
  });
  const following = followLink({
    address: path,
    log,
    time: { now: () => Date.now() + clock.aheadMs, elapsed: () => performance.now() + clock.aheadMs },
  });
  onCleanup(async () => {
    await following.stop();
    await link.stop();
    await rm(folder, { recursive: true });
  });
  await following.ready;
  const { dial, dialLoopback } = forwarding;
  return { forwarding: { ...following.forwarding, dial, dialLoopback }, authenticate: following.authenticate };
}

interface Login {
  token: string;
  caller: Caller;
}

async function logIn({ access }: World['running']): Promise<Login> {
  const { accessToken: token } = await access.login({ username: 'admin', password: PASSWORD }, '127.0.0.1');
  return { token, caller: await access.authenticate({ kind: 'token', token }) };
}

async function launched({ world }: Fixture): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput({}), null);
  await world.until(instanceId, hasStatus('Running'));
  return instanceId;
}

interface Tab {
  /** Status of an autosave. */
  save(): Promise<number>;
  socket(): Promise<WebSocket>;
}

/** A browser at the instance, opened by a link to this or another instance. */
async function tabOf(
  { world, harness }: Fixture,
  caller: Caller,
  instanceId: string,
  openedFor = instanceId,
): Promise<Tab> {
  const { url } = await world.running.control.instances.open(caller, { instanceId: openedFor, port: undefined });
  const opened = await ask(harness, `${new URL(url).pathname}${new URL(url).search}`);
  expect(opened).toMatchObject({ status: 303, headers: { location: `/notebook/${openedFor}/` } });
  const cookie = opened.headers['set-cookie']?.[0]?.split(';')[0] ?? '';
  const headers = { cookie, origin: harness.origin };
  return {
    async save() {
      const path = `/notebook/${instanceId}/api/contents/work.ipynb`;
      return (await ask(harness, path, { method: 'PUT', headers, body: '{}' })).status;
    },
    async socket() {
      const address = `${harness.origin.replace('http', 'ws')}/notebook/${instanceId}/api/kernels/1/channels`;
      const socket = new WebSocket(address, { headers, perMessageDeflate: false });
      socket.on('error', () => {});
      onCleanup(async () => socket.terminate());
      await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
      return socket;
    },
  };
}

const isOpen = (socket: WebSocket): boolean => socket.readyState === WebSocket.OPEN;

describe.each<Way>(['in one process', 'in a process of its own'])('a notebook through a gateway %s', (way) => {
  test('is saved by a tab in use for three days, and not by a tab idle for a day', async () => {
    const fixture = await open(way);
    const { world, clock } = fixture;
    const login = await logIn(world.running);
    const instanceId = await launched(fixture);
    const tab = await tabOf(fixture, login.caller, instanceId);
    const left = await tabOf(fixture, login.caller, instanceId);
    for (let hour = 0; hour < 72; hour += 1) {
      clock.aheadMs += HOUR_MS;
      expect(await tab.save(), `after ${hour + 1} hours`).toBe(200);
      await world.running.access.sweep();
    }
    await expect(
      world.running.access.authenticate({ kind: 'token', token: login.token }),
      'its login has expired',
    ).rejects.toMatchObject({ code: 'not_logged_in' });
    expect(await left.save()).toBe(401);
    // Just before expiry.
    clock.aheadMs += 24 * HOUR_MS - 60_000;
    expect(await tab.save()).toBe(200);
    clock.aheadMs += 24 * HOUR_MS + 1_000;
    expect(await tab.save()).toBe(401);
  });

  test('counts an idle WebSocket as use', async () => {
    const fixture = await open(way, 20);
    const { world, clock } = fixture;
    const { caller } = await logIn(world.running);
    const tab = await tabOf(fixture, caller, await launched(fixture));
    const socket = await tab.socket();
    const lastUsedMs = async () => (await world.running.access.listSessions(caller)).sessions[0]?.lastUsedAtUnixMs ?? 0;
    for (let hour = 0; hour < 72; hour += 12) {
      clock.aheadMs += 12 * HOUR_MS;
      const nowMs = Date.now() + clock.aheadMs;
      await expect.poll(lastUsedMs).toBeGreaterThanOrEqual(nowMs);
    }
    expect(isOpen(socket)).toBe(true);
    expect(await tab.save()).toBe(200);
  });

  type End = (fixture: Fixture, at: { caller: Caller; instanceId: string }) => Promise<unknown>;
  const ends: [string, End][] = [
    ['logout', ({ world }, { caller }) => world.running.control.access.logout(caller)],
    [
      'revoking the session',
      async ({ world }, { caller, instanceId }) => {
        const { access } = world.running.control;
        const ids = (await access.listSessions(caller)).sessions.filter((session) => session.instanceId === instanceId);
        for (const { id } of ids) await access.revokeSession(caller, { id }, null);
      },
    ],
    [
      'a new password',
      ({ world }, { caller }) =>
        world.running.control.access.changePassword(caller, { oldPassword: PASSWORD, newPassword: 'battery staple' }),
    ],
    [
      'terminating the instance',
      ({ world }, { caller, instanceId }) => world.running.control.instances.terminate(caller, { instanceId }, null),
    ],
  ];
  test.each(ends)('ends at once with %s: no save, and the WebSocket is cut', async (name, end) => {
    const fixture = await open(way);
    const { world } = fixture;
    const [mine, others] = [await logIn(world.running), await logIn(world.running)];
    const [instanceId, elsewhere] = [await launched(fixture), await launched(fixture)];
    const tab = await tabOf(fixture, mine.caller, instanceId);
    const other = await tabOf(fixture, others.caller, elsewhere);
    const [socket, otherSocket] = [await tab.socket(), await other.socket()];
    expect(await tab.save()).toBe(200);
    await end(fixture, { caller: mine.caller, instanceId });
    // Access is also rechecked every 30 seconds; an earlier cut proves the revocation.
    await expect.poll(() => isOpen(socket)).toBe(false);
    expect(await tab.save()).toBe(name === 'terminating the instance' ? 404 : 401);
    if (name === 'a new password') return;
    expect(isOpen(otherSocket)).toBe(true);
    expect(await other.save()).toBe(200);
  });

  test('ends at once with the API key it was opened by', async () => {
    const fixture = await open(way);
    const { control, access } = fixture.world.running;
    const { caller } = await logIn(fixture.world.running);
    const { key } = await control.access.createApiKey(caller, { name: 'ci' }, null);
    const program = await access.authenticate({ kind: 'apiKey', key: key.fullKey });
    const tab = await tabOf(fixture, program, await launched(fixture));
    const socket = await tab.socket();
    await control.access.deleteApiKey(caller, { id: key.id }, null);
    await expect.poll(() => isOpen(socket)).toBe(false);
    expect(await tab.save()).toBe(401);
  });

  test('ends with the expiry of the API key it was opened by, before any recheck', async () => {
    const fixture = await open(way, HOUR_MS);
    const { control, access } = fixture.world.running;
    const { caller } = await logIn(fixture.world.running);
    const instanceId = await launched(fixture);
    const expiresAtMs = Date.now() + 4_000;
    const { key } = await control.access.createApiKey(caller, { name: 'ci', expiresAtUnixMs: expiresAtMs }, null);
    const tab = await tabOf(fixture, await access.authenticate({ kind: 'apiKey', key: key.fullKey }), instanceId);
    const byLogin = await tabOf(fixture, caller, instanceId);
    const [socket, stays] = [await tab.socket(), await byLogin.socket()];
    expect(await tab.save()).toBe(200);
    await expect.poll(() => isOpen(socket), { interval: 10 }).toBe(false);
    expect(await tab.save()).toBe(401);
    expect(isOpen(stays)).toBe(true);
  });

  test('keeps saving after the session’s first instance is terminated; the session ends with the last', async () => {
    const fixture = await open(way);
    const { running } = fixture.world;
    const { caller } = await logIn(running);
    const [first, second] = [await launched(fixture), await launched(fixture)];
    const tab = await tabOf(fixture, caller, first, second);
    const socket = await tab.socket();
    await running.control.instances.terminate(caller, { instanceId: second }, null);
    fixture.clock.aheadMs += 2_000;
    expect(await tab.save()).toBe(200);
    expect(isOpen(socket)).toBe(true);
    await running.control.instances.terminate(caller, { instanceId: first }, null);
    expect((await running.access.listSessions(caller)).sessions).toEqual([]);
    fixture.clock.aheadMs += 2_000;
    expect(await tab.save()).toBe(401);
  });
});

test('cuts connections when their link is revoked or the port is restricted', async () => {
  const fixture = await open('in one process');
  const { world, harness } = fixture;
  const { ports } = world.running.control;
  const instanceId = await launched(fixture);
  const { token, shareId } = await ports.share(
    world.caller,
    { instanceId, port: 8888, forMs: HOUR_MS, name: '' },
    null,
  );
  await ports.setAccess(world.caller, { instanceId, port: 8888, access: 'owner' });
  const at = `${harness.origin.replace('http', 'ws')}/forward/${instanceId}/8888/`;
  const connect = async (headers: Record<string, string>): Promise<WebSocket> => {
    const socket = new WebSocket(at, { headers });
    onCleanup(async () => socket.terminate());
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    return socket;
  };
  const byLink = await connect({ 'x-berth-share': token });
  await ports.unshare(world.caller, { instanceId, shareId }, null);
  await expect.poll(() => isOpen(byLink)).toBe(false);
  await ports.setAccess(world.caller, { instanceId, port: 8888, access: 'public' });
  const byAnybody = await connect({});
  await ports.setAccess(world.caller, { instanceId, port: 8888, access: 'owner' });
  await expect.poll(() => isOpen(byAnybody)).toBe(false);
});

/** A gateway process follows the API, and keeps its state during an API outage. */
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Forwarding, GatewayRoute, RegionToOpen, RouteTable, RouteUpdate } from '../../../src/control/index.ts';
import { makeRevocations } from '../../../src/control/access/routing/revocations.ts';
import type {
  RevocationSubject,
  OpenedPort,
  SshIdentity,
  SshLogin,
} from '../../../src/control/access/routing/gateway-types.ts';
import { regionId } from '../../../src/domain/kernel/ids.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { followLink, type Following } from '../../../src/edge/link/follow-control.ts';
import { serveLink } from '../../../src/edge/link/serve.ts';
import type { LinkServer } from '../../../src/edge/link/link-server.ts';
import { updateLine } from '../../../src/edge/link/wire.ts';
import { ALICE, idOf, ISSUER, MALLORY, noBar } from './harness.ts';

const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const PROGRAM = {
  accountId: ALICE,
  scopes: ['read' as const],
  limits: { expiresAtMs: 9_000_000_000_000, addresses: ['192.0.2.0/24'] },
};
const [ONE, TWO] = [idOf('1'), idOf('2')];
const OWN_REGION = 'own-region';
const region = (id: string, secret: string | null): RegionToOpen => ({
  id: regionId(id),
  address: '192.0.2.9',
  settings: {
    kubernetes: {
      login: 'token',
      apiUrl: 'https://cluster.test',
      namespace: 'berth',
      reach: 'podAddress',
      networkPolicies: true,
      userNamespaces: false,
    },
    pools: [],
    nodePorts: { first: 30_000, last: 30_100 },
  },
  secret,
});
const route = (instanceId: GatewayRoute['instanceId'], more: Partial<GatewayRoute> = {}): GatewayRoute => ({
  instanceId,
  regionId: OWN_REGION,
  ownerId: ALICE,
  access: new Map([
    [8000, 'public'],
    [8001, 'signedIn'],
  ]),
  nodePorts: new Map([[8000, '127.0.0.2:30000']]),
  running: true,
  status: 'Running',
  wake: 'owner',
  notebookToken: 'secret',
  sshFront: false,
  notebook: null,
  ...more,
});

const lineOptions = (number: number) => ({ number, issuer: ISSUER, ownRegionId: OWN_REGION, ended: [] });

let folder: string;
let path: string;
let links: LinkServer[];
let followings: Following[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'berth-link-'));
  path = join(folder, 'gateway.sock');
  links = [];
  followings = [];
});
afterEach(async () => {
  for (const following of followings) await following.stop();
  for (const link of links) await link.stop();
  await rm(folder, { recursive: true });
});

/** An API with these routes and sessions; `tell` sends changes. */
async function api(
  routes: GatewayRoute[],
  sessions: Record<string, string> = {},
  shares: Record<string, OpenedPort> = {},
  identities: Record<string, SshIdentity> = {},
  regions: RegionToOpen[] = [],
) {
  const followers = new Set<(reported: RouteUpdate) => void>();
  const asked: string[] = [];
  const open: string[] = [];
  const began: string[] = [];
  const regionListeners = new Set<() => void>();
  const logins: SshLogin[] = [];
  const routeTable: RouteTable = {
    async follow(tell, signal) {
      followers.add(tell);
      // Two parts: only the last completes the snapshot.
      tell({ snapshot: 'part', routes: routes.slice(0, 1), gone: [] });
      tell({ snapshot: 'last', routes: routes.slice(1), gone: [] });
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      followers.delete(tell);
    },
  };
  const endings = makeRevocations();
  const forwarding: Pick<
    Forwarding,
    'redeem' | 'session' | 'share' | 'ssh' | 'recordSshLogin' | 'beginTraffic' | 'onRevoked'
  > = {
    onRevoked: endings.onRevoked,
    async session(secret) {
      asked.push(`session ${secret}`);
      const accountId = sessions[secret];
      return accountId === undefined ? null : { accountId };
    },
    async share(token) {
      asked.push(`share ${token}`);
      return shares[token] ?? null;
    },
    async ssh(instanceId) {
      asked.push(`ssh ${instanceId}`);
      return identities[instanceId] ?? null;
    },
    async recordSshLogin(login) {
      logins.push(login);
    },
    redeem: async (handover) =>
      handover === 'good' ? { session: 's', accountId: ALICE, instanceId: ONE, expiresAtMs: 1 } : null,
    beginTraffic(id, kind) {
      const name = `${kind} ${id}`;
      open.push(name);
      began.push(name);
      return () => void open.splice(open.indexOf(name), 1);
    },
  };
  const link = await serveLink({
    address: path,
    routeTable,
    forwarding,
    notebookBar: noBar,
    authenticate: async (credential) => {
      asked.push(credential.kind);
      if (credential.kind === 'apiKey') return PROGRAM;
      throw new Refusal('not_logged_in', 'not logged in');
    },
    wake: async () => ({ dollarsPerHour: null, expectedMs: null }),
    issuer: ISSUER,
    ownRegionId: OWN_REGION,
    regions: {
      current: () => regions,
      onChange(listener) {
        regionListeners.add(listener);
        return () => void regionListeners.delete(listener);
      },
    },
    log,
  });
  links.push(link);
  const tell = (reported: Partial<RouteUpdate>): void => {
    for (const follower of followers) follower({ snapshot: null, routes: [], gone: [], ...reported });
  };
  const serve = (served: RegionToOpen): void => {
    regions.push(served);
    for (const listener of regionListeners) listener();
  };
  return { link, tell, serve, logins, asked, open, began, followers, regionListeners, ended: endings.publish };
}

function follow(now?: () => number): Following {
  const following = followLink({ address: path, log, ...(now ? { time: { now, elapsed: now } } : {}) });
  followings.push(following);
  return following;
}

async function routeIs(following: Pick<Following, 'forwarding'>, id: string, wanted: unknown): Promise<void> {
  await expect.poll(() => following.forwarding.route(id)).toEqual(wanted);
}

test('receives all routes and changes, whichever side starts first', async () => {
  const following = follow();
  await expect(following.forwarding.route(ONE)).rejects.toMatchObject({ code: 'unavailable' });
  const { tell } = await api([route(ONE), route(TWO)]);
  expect(await following.ready).toEqual({ issuer: ISSUER, ownRegionId: OWN_REGION });
  expect(await following.forwarding.route(ONE)).toEqual(route(ONE));
  expect(await following.forwarding.route(TWO)).toEqual(route(TWO));
  tell({ routes: [route(ONE, { running: false, status: 'Stopped' })], gone: [TWO] });
  await routeIs(following, ONE, route(ONE, { running: false, status: 'Stopped' }));
  expect(await following.forwarding.route(TWO)).toBeNull();
});

test('delivers ssh logins for the audit log, those of an outage afterwards, in order and with their times', async () => {
  const first = await api([route(ONE)]);
  const { ready, forwarding } = follow();
  await ready;
  const account = { accountId: ALICE, username: 'alice' };
  const login = (atMs: number, more: Partial<SshLogin> = {}): SshLogin => {
    const client = { address: '192.0.2.7', program: 'SSH-2.0-test' };
    return { instanceId: ONE, account, fingerprint: 'SHA256:x', ...client, atMs, ...more };
  };
  await forwarding.recordSshLogin(login(1));
  expect(first.logins).toEqual([login(1)]);
  await first.link.stop();
  await forwarding.recordSshLogin(login(2));
  const refused = { account: null, fingerprint: '' };
  for (let n = 0; n < 1_100; n += 1) await forwarding.recordSshLogin(login(3, refused));
  await forwarding.recordSshLogin(login(4));
  const { logins } = await api([route(ONE)]);
  await expect.poll(() => logins.at(-1)).toEqual(login(4));
  expect(logins[0]).toEqual(login(2));
  expect(logins.filter((one) => one.account === null)).toEqual(Array(999).fill(login(3, refused)));
});

test('keeps its table during an API outage, and drops removed routes afterwards', async () => {
  const sessions = { mine: ALICE };
  const first = await api([route(ONE), route(TWO)], sessions);
  let nowMs = 1_000_000;
  const following = follow(() => nowMs);
  await following.ready;
  expect(await following.forwarding.session('mine')).toMatchObject({ accountId: ALICE });
  expect(await following.authenticate({ kind: 'apiKey', key: 'k' })).toEqual(PROGRAM);
  await first.link.stop();
  nowMs += 3_600_000;
  // Long enough for failed reconnects.
  await sleep(600);
  expect(await following.forwarding.route(TWO)).toEqual(route(TWO));
  expect(await following.forwarding.session('mine')).toMatchObject({ accountId: ALICE });
  expect(await following.authenticate({ kind: 'apiKey', key: 'k' })).toEqual(PROGRAM);
  await expect(following.forwarding.session('unknown')).rejects.toMatchObject({ code: 'unavailable' });
  await expect(following.forwarding.redeem('good', { address: '', userAgent: '' })).rejects.toMatchObject({
    code: 'unavailable',
    retryAfterS: 2,
  });
  await api([route(ONE, { ownerId: MALLORY })]);
  await routeIs(following, TWO, null);
  expect(await following.forwarding.route(ONE)).toEqual(route(ONE, { ownerId: MALLORY }));
  await expect.poll(() => following.forwarding.session('mine')).toBeNull();
});

test('caches answers for a second, and forwards refusals unchanged', async () => {
  const { asked } = await api([], { mine: ALICE });
  let nowMs = 1_000_000;
  const following = follow(() => nowMs);
  await following.ready;
  for (let count = 0; count < 3; count++) await following.forwarding.session('mine');
  expect(asked).toEqual(['session mine']);
  nowMs += 1_000;
  await following.forwarding.session('mine');
  expect(asked).toEqual(['session mine', 'session mine']);
  expect(await following.forwarding.session('other')).toBeNull();
  await expect(following.authenticate({ kind: 'token', token: 't' })).rejects.toMatchObject({ code: 'not_logged_in' });
  expect(await following.forwarding.redeem('bad', { address: '', userAgent: '' })).toBeNull();
  expect(await following.forwarding.redeem('good', { address: '', userAgent: '' })).toMatchObject({
    accountId: ALICE,
    instanceId: ONE,
  });
});

test('caches a port link during an API outage, until it expires', async () => {
  let nowMs = 1_000_000;
  const open = { instanceId: ONE, port: 8000, expiresAtMs: nowMs + 600_000 };
  const { link, asked } = await api([route(ONE)], {}, { good: open });
  const following = follow(() => nowMs);
  await following.ready;
  for (let count = 0; count < 3; count++) expect(await following.forwarding.share('good')).toEqual(open);
  expect(await following.forwarding.share('bad')).toBeNull();
  expect(asked).toEqual(['share good', 'share bad']);
  await link.stop();
  nowMs += 599_999;
  expect(await following.forwarding.share('good')).toEqual(open);
  nowMs += 1;
  expect(await following.forwarding.share('good')).toBeNull();
});

test('invalidates cached answers at a revocation, and publishes it', async () => {
  const sessions: Record<string, string> = { mine: ALICE, other: MALLORY };
  const shares: Record<string, OpenedPort> = { link: { instanceId: ONE, port: 8000, expiresAtMs: 2_000_000 } };
  const { tell, ended, asked } = await api([route(ONE), route(TWO)], sessions, shares);
  const { ready, forwarding, authenticate } = follow(() => 1_000_000);
  await ready;
  const revocations: RevocationSubject[] = [];
  const unfollow = forwarding.onRevoked((look) => revocations.push(look));
  for (const secret of ['mine', 'other']) await forwarding.session(secret);
  await authenticate({ kind: 'apiKey', key: 'k' });
  await forwarding.share('link');
  delete sessions['mine'];
  delete shares['link'];
  expect(await forwarding.session('mine')).toEqual({ accountId: ALICE });
  asked.length = 0;
  ended({ accountId: ALICE });
  await expect.poll(() => revocations).toEqual([{ accountId: ALICE }]);
  expect(await forwarding.session('mine')).toBeNull();
  expect(await forwarding.session('other')).toEqual({ accountId: MALLORY });
  await authenticate({ kind: 'apiKey', key: 'k' });
  expect(asked).toEqual(['session mine', 'apiKey']);
  tell({ routes: [route(ONE)], gone: [TWO] });
  await expect.poll(() => revocations.slice(1)).toEqual([{ instanceId: ONE }, { instanceId: TWO }]);
  expect(await forwarding.share('link')).toBeNull();
  unfollow();
  tell({ gone: [ONE] });
  await routeIs({ forwarding }, ONE, null);
  expect(revocations).toHaveLength(3);
});

test('caches ssh identities for a second, longer during an API outage, and drops deleted keys', async () => {
  const account = { accountId: ALICE, username: 'alice' };
  const keys = { keys: ['one', 'two'], authorities: ['three'] };
  const identity = { account, hostKey: 'a key', ...keys, principals: ['root'] };
  const identities: Record<string, SshIdentity> = { [ONE]: identity };
  const { link, asked } = await api([route(ONE)], {}, {}, identities);
  let nowMs = 1_000_000;
  const following = follow(() => nowMs);
  await following.ready;
  for (let count = 0; count < 3; count++) expect(await following.forwarding.ssh(ONE)).toEqual(identity);
  expect(await following.forwarding.ssh(TWO)).toBeNull();
  expect(asked).toEqual([`ssh ${ONE}`, `ssh ${TWO}`]);
  identities[ONE] = { ...identity, keys: ['two'] };
  nowMs += 1_000;
  expect(await following.forwarding.ssh(ONE)).toEqual({ ...identity, keys: ['two'] });
  await link.stop();
  nowMs += 3_600_000;
  expect(await following.forwarding.ssh(ONE)).toEqual({ ...identity, keys: ['two'] });
  await expect(following.forwarding.ssh(TWO)).rejects.toMatchObject({ code: 'unavailable' });
});

test('publishes the table, each change, and the table again after an API outage', async () => {
  const reported: RouteUpdate[] = [];
  const fronted = route(ONE, { sshFront: true });
  const first = await api([fronted, route(TWO)]);
  const following = follow();
  following.subscribe((one) => void (one.routes.length + one.gone.length > 0 && reported.push(one)));
  await following.ready;
  expect(reported).toEqual([{ snapshot: 'last', routes: [fronted, route(TWO)], gone: [] }]);
  first.tell({ routes: [route(ONE)], gone: [TWO] });
  await expect.poll(() => reported[1]).toEqual({ snapshot: null, routes: [route(ONE)], gone: [TWO] });
  await first.link.stop();
  await api([fronted]);
  await expect.poll(() => reported[2]).toEqual({ snapshot: 'last', routes: [fronted], gone: [] });
});

test('receives the regions of administrators before the routes, and each change with its credentials', async () => {
  const first = await api([route(ONE)], {}, {}, {}, [region('a', 'first secret')]);
  const received: unknown[] = [];
  const following = follow();
  following.subscribeRegions((regions) => received.push(...(regions.length > 0 ? [regions] : [])));
  following.subscribe(({ routes }) => received.push(...routes.map(({ instanceId }) => instanceId)));
  await following.ready;
  expect(received).toEqual([[region('a', 'first secret')], ONE]);
  first.serve(region('b', null));
  await expect.poll(() => received[2]).toEqual([region('a', 'first secret'), region('b', null)]);
});

test('keeps regions during an API outage, and follows those of the next API alone', async () => {
  const first = await api([route(ONE)], {}, {}, {}, [region('a', 'old')]);
  let regions: readonly RegionToOpen[] = [];
  const following = follow();
  following.subscribeRegions((received) => (regions = received));
  await following.ready;
  await first.link.stop();
  await sleep(600);
  expect(regions).toEqual([region('a', 'old')]);
  expect(first.regionListeners.size).toBe(0);
  await api([route(ONE)], {}, {}, {}, [region('a', 'new')]);
  await expect.poll(() => regions).toEqual([region('a', 'new')]);
});

test('quotes no text of a line that it cannot read', async () => {
  const said: string[] = [];
  const record = (facts: Record<string, unknown>): void =>
    void said.push(String(facts['err']), JSON.stringify(facts['err']));
  const [good] = [updateLine({ snapshot: 'last', routes: [], gone: [] }, lineOptions(1))];
  const bad = updateLine(
    { snapshot: null, routes: [], gone: [] },
    { ...lineOptions(2), regions: [region('a', 'hush')] },
  );
  const server = createHttpServer((_req, res) => {
    res.write(good);
    res.write(said.length === 0 ? bad.replace('"hush"', 'hush') : bad.replace('"hush"', '["hush"]'));
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const following = followLink({ address: path, log: { ...log, warn: record } });
  followings.push(following);
  await expect.poll(() => said.length).toBeGreaterThanOrEqual(4);
  expect(said[0]).toBe('Error: a line of the API is not JSON');
  expect(said.join('\n')).toContain('secret');
  expect(said.join('\n')).not.toContain('hush');
  await following.stop();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

test('reports traffic to the API until the gateway ends', async () => {
  const { open, began } = await api([route(ONE)]);
  const following = follow();
  await following.ready;
  const dones = [following.forwarding.beginTraffic(ONE, 'use'), following.forwarding.beginTraffic(ONE, 'use')];
  await expect.poll(() => open).toEqual([`use ${ONE}`, `use ${ONE}`]);
  dones[0]?.();
  await expect.poll(() => open).toEqual([`use ${ONE}`]);
  // A connection between two reports counts as use.
  following.forwarding.beginTraffic(ONE, 'poll')();
  await expect.poll(() => began).toContain(`poll ${ONE}`);
  await following.stop();
  await expect.poll(() => open).toEqual([]);
});

test('reports open connections to a restarted API', async () => {
  const first = await api([route(ONE)]);
  const following = follow();
  await following.ready;
  following.forwarding.beginTraffic(ONE, 'use');
  await expect.poll(() => first.open).toHaveLength(1);
  await first.link.stop();
  const second = await api([route(ONE)]);
  await expect.poll(() => second.open).toEqual([`use ${ONE}`]);
});

test('restricts its socket, and replaces the socket of a killed server', async () => {
  const left: Server = createServer().listen(path);
  await new Promise((resolve) => left.once('listening', resolve));
  await api([]);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  await expect(follow().ready).resolves.toEqual({ issuer: ISSUER, ownRegionId: OWN_REGION });
  left.close();
});

test('rechecks everything after an API outage', async () => {
  const sessions: Record<string, string> = { mine: ALICE };
  const shares: Record<string, OpenedPort> = { link: { instanceId: ONE, port: 8000, expiresAtMs: 2_000_000 } };
  const [THREE, FOUR] = [idOf('3'), idOf('4')];
  const first = await api([route(ONE), route(TWO), route(THREE), route(FOUR)], sessions, shares);
  const { ready, forwarding } = follow(() => 1_000_000);
  await ready;
  expect(await forwarding.session('mine')).toEqual({ accountId: ALICE });
  expect(await forwarding.share('link')).not.toBeNull();
  const revocations: RevocationSubject[] = [];
  const found: unknown[] = [];
  forwarding.onRevoked((look) => {
    revocations.push(look);
    if ('accountId' in look) found.push(forwarding.session('mine'));
  });
  await first.link.stop();
  await api([route(ONE), route(TWO, { access: new Map([[8000, 'owner']]) }), route(THREE)]);
  await expect.poll(() => revocations.length).toBeGreaterThan(0);
  expect(new Set(revocations)).toEqual(
    new Set([{ accountId: ALICE }, { instanceId: ONE }, { instanceId: TWO }, { instanceId: FOUR }]),
  );
  expect(revocations).toHaveLength(4);
  expect(await Promise.all(found)).toEqual([null]);
  expect(await forwarding.share('link')).toBeNull();
});

test('keeps connections open when the API fails again before the recheck', async () => {
  const first = await api([route(ONE)], { mine: ALICE });
  const { ready, forwarding } = follow(() => 1_000_000);
  await ready;
  await forwarding.session('mine');
  await first.link.stop();
  const second = await api([], { mine: ALICE });
  await routeIs({ forwarding }, ONE, null);
  await second.link.stop();
  expect(await forwarding.session('mine')).toEqual({ accountId: ALICE });
  expect(second.asked).toEqual([]);
});

test('requests a new snapshot when a line is lost', async () => {
  const reported: RouteUpdate = { snapshot: 'last', routes: [route(ONE)], gone: [] };
  let streams = 0;
  let closed = 0;
  const server = createHttpServer((_req, res) => {
    streams += 1;
    const numbers = streams === 1 ? [1, 2, 4] : [1];
    res.once('close', () => (closed += 1));
    for (const number of numbers)
      res.write(
        updateLine(number === 1 ? reported : { ...reported, snapshot: null, routes: [] }, {
          number,
          issuer: ISSUER,
          ownRegionId: OWN_REGION,
          ended: [],
        }),
      );
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const following = follow();
  await expect.poll(() => streams).toBe(2);
  await expect.poll(() => closed).toBe(1);
  expect(await following.forwarding.route(ONE)).toEqual(route(ONE));
  await following.stop();
  await new Promise((resolve) => server.close(resolve));
  expect(streams).toBe(2);
});

/** Access to ports on both stores: settings, links, and notification of gateways. */
import { expect, test } from 'vitest';
import type { Caller, RouteUpdate } from '../../../src/control/index.ts';
import type { PortAccess } from '../../../src/domain/access/port-access.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { everythingIn, expectRefused, keyed, setDisabled, watchedStore } from './access-fixture.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

const visitor = { address: '127.0.0.1', userAgent: '' };
const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;
const UNKNOWN = 'notebook-00000000-0000-4000-8000-000000000000';

async function launched(world: World, nodePorts: number[] = [8000], caller = world.caller): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(caller, world.launchInput({ nodePorts }), null);
  await world.until(instanceId, hasStatus('Running'));
  return instanceId;
}

const set = (world: World, instanceId: string, port: number, access: PortAccess | 'default', caller = world.caller) =>
  world.running.control.ports.setAccess(caller, { instanceId, port, access });
const share = (world: World, instanceId: string, port: number, forMs = HOUR_MS) =>
  world.running.control.ports.share(world.caller, { instanceId, port, forMs, name: '' }, null);
const accessAt = async (world: World, id: string) =>
  Object.fromEntries((await world.running.control.forwarding.route(id))?.access ?? []);
const eventsOf = async (world: World, id: string) =>
  (await world.store.read.selectFrom('event').select('kind').where('subjectId', '=', id).orderBy('seq').execute())
    .map(({ kind }) => kind)
    .filter((kind) => kind.startsWith('instance.port'));

onBothEngines('access to a port', (open) => {
  test('snapshots contain all active instances, or those with desired running only', async () => {
    const world = await makeWorld(await open());
    const [runs, stopped] = [await launched(world), await launched(world)];
    await world.running.control.instances.stop(world.caller, { instanceId: stopped }, null);
    await world.until(stopped, hasStatus('Stopped'));
    const snapshotOf = async (which?: { onlyRunning: boolean }): Promise<string[]> => {
      const following = new AbortController();
      const reported = Promise.withResolvers<RouteUpdate>();
      const follows = world.running.control.routeTable.follow(reported.resolve, following.signal, which);
      const { routes } = await reported.promise;
      following.abort();
      await follows;
      return routes.map(({ instanceId }) => instanceId);
    };
    expect((await snapshotOf()).toSorted()).toEqual([runs, stopped].toSorted());
    expect(await snapshotOf({ onlyRunning: true })).toEqual([runs]);
  });

  test("follows the owner's setting at once, also in remote gateways, through stop, start and server restart", async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    const reported: RouteUpdate[] = [];
    const following = new AbortController();
    const follows = world.running.control.routeTable.follow((one) => reported.push(one), following.signal);
    const publishedAccess = () =>
      reported
        .flatMap(({ routes }) => routes)
        .filter(({ instanceId }) => instanceId === id)
        .map(({ access }) => Object.fromEntries(access))
        .at(-1);
    await expect.poll(publishedAccess).toEqual({ 8000: 'public' });
    expect(await accessAt(world, id)).toEqual({ 8000: 'public' });

    expect(await set(world, id, 8001, 'signedIn')).toMatchObject({ port: 8001, access: 'signedIn', isDefault: false });
    expect(await accessAt(world, id)).toEqual({ 8000: 'public', 8001: 'signedIn' });
    await set(world, id, 8000, 'owner');
    expect(await accessAt(world, id)).toEqual({ 8001: 'signedIn' });
    await expect.poll(publishedAccess).toEqual({ 8001: 'signedIn' });
    following.abort();
    await follows;

    const { instances } = world.running.control;
    await instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    // Also while stopped.
    await set(world, id, 8002, 'public');
    await instances.start(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    await world.again();
    expect(await accessAt(world, id)).toEqual({ 8001: 'signedIn', 8002: 'public' });

    expect(await set(world, id, 8000, 'default')).toMatchObject({ access: 'public', isDefault: true });
    await set(world, id, 8002, 'owner');
    expect(await accessAt(world, id)).toEqual({ 8000: 'public', 8001: 'signedIn' });
    // An unchanged setting is no event.
    await set(world, id, 8001, 'signedIn');
    expect(await eventsOf(world, id)).toEqual(Array.from({ length: 5 }, () => 'instance.portAccessSet'));
  });

  test('says of each port that others see in a sandbox what to pass on instead', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    const noteOf = async (port: number, access: PortAccess): Promise<string> =>
      (await set(world, id, port, access)).note;
    for (const access of ['public', 'signedIn'] as const) {
      expect(await noteOf(8000, access)).toMatch(/in a sandbox.*: pass on the node port, or let .* BERTH_DOMAIN$/);
      expect(await noteOf(8001, access)).toMatch(/in a sandbox.*: add the port to nodePorts and pass on/);
    }
    for (const port of [8000, 8001]) expect(await noteOf(port, 'owner')).not.toContain('sandbox');
  });

  test('the gateway knows the node ports of an instance that runs', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    const { forwarding, instances, ports } = world.running.control;
    const published = async () => [...((await forwarding.route(id))?.nodePorts ?? [])];
    const [listed] = await ports.list(world.caller, id);
    expect(await published()).toEqual([[8000, `${listed?.nodePort?.address}:${listed?.nodePort?.port}`]]);
    await instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    expect(await published()).toEqual([]);
  });

  test("allows settings for 64 ports of one's own active instance", async () => {
    const world = await makeWorld(await open(), { start: false });
    const { instanceId: id } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const other = await world.account('mallory');
    const { ports } = world.running.control;
    for (const [caller, instanceId] of [
      [other, id],
      [world.caller, UNKNOWN],
    ] as const) {
      await expectRefused(set(world, instanceId, 8000, 'public', caller), 'not_found', /ent: instance not found/);
      await expectRefused(ports.list(caller, instanceId), 'not_found');
      await expectRefused(ports.share(caller, { instanceId, port: 8000, forMs: 1, name: '' }, null), 'not_found');
      await expectRefused(ports.shares(caller, instanceId), 'not_found');
      await expectRefused(ports.unshare(caller, { instanceId, shareId: 'x' }, null), 'not_found', /instance/);
    }
    for (let port = 1000; port < 1064; port++) await set(world, id, port, 'public');
    await expectRefused(set(world, id, 1064, 'public'), 'over_quota', /has settings for 64 ports.*"default"/);
    await set(world, id, 1063, 'signedIn');
    await set(world, id, 1000, 'default');
    await set(world, id, 1064, 'public');
    await world.running.control.instances.terminate(world.caller, { instanceId: id }, null);
    await expectRefused(set(world, id, 8000, 'public'), 'not_found');
    await expectRefused(share(world, id, 8000), 'not_found');
  });

  test('reads a route at most once a second, and a link as often', async () => {
    const { store, asked } = watchedStore(await open());
    const world = await makeWorld(store, { start: false });
    const { instanceId: id } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await set(world, id, 8000, 'signedIn');
    const { token } = await share(world, id, 8000);
    const { forwarding } = world.running.control;
    const visit = async (count: number, links: boolean): Promise<number> => {
      const before = asked.length;
      for (let visits = 0; visits < count; visits++) {
        expect((await forwarding.route(id))?.access.get(8000)).toBe('signedIn');
        if (links) expect(await forwarding.share(token)).not.toBeNull();
      }
      return asked.length - before;
    };
    // Creates one each, and a few more where fifty requests take seconds.
    expect(await visit(50, false)).toBeLessThan(5);
    expect(await visit(50, true)).toBeLessThan(10);
  });

  test('decides which accounts the API may give links to instances of others', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { instanceId: id } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.account('mallory');
    const { accessToken: token } = await world.running.access.login(
      { username: 'mallory', password: 'battery staple' },
      '127.0.0.1',
    );
    const mallory = await world.running.access.authenticate({ kind: 'token', token });
    const { instances, forwarding } = world.running.control;
    const link = (port?: number) => instances.open(mallory, { instanceId: id, port });
    await expectRefused(link(8000), 'not_found');
    await set(world, id, 8000, 'signedIn');
    await expectRefused(link(), 'not_found');
    await expectRefused(link(8001), 'not_found');
    const { url } = await link(8000);
    const redeemed = await forwarding.redeem(new URL(url).searchParams.get('key') ?? '', visitor);
    // Makes a session of the visitor's own account only.
    expect(redeemed?.accountId).toBe(mallory.accountId);
    await set(world, id, 8000, 'owner');
    await expectRefused(link(8000), 'not_found');
  });
});

onBothEngines('a link to a port', (open) => {
  test('opens the port until it expires, through a stop; stores only a hash', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock });
    const id = await launched(world);
    const made = await share(world, id, 8001);
    expect(made.token).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(made.url).toBe(`http://gateway.test/forward/${id}/8001/?berth_share=${made.token}`);
    const { forwarding, ports, instances } = world.running.control;
    const opens = { instanceId: id, port: 8001, expiresAtMs: made.expiresAtMs };
    expect(await forwarding.share(made.token)).toMatchObject(opens);
    expect(await ports.shares(world.caller, id)).toEqual([
      {
        shareId: made.shareId,
        port: 8001,
        name: '',
        createdAtMs: made.expiresAtMs - HOUR_MS,
        expiresAtMs: made.expiresAtMs,
      },
    ]);
    expect((await ports.list(world.caller, id)).map(({ port }) => port)).toEqual([8000, 8001]);
    expect(await everythingIn(world.store)).not.toContain(made.token);
    for (const text of ['', 'x', made.shareId, `${made.token}A`, 'A'.repeat(43)])
      expect(await forwarding.share(text)).toBeNull();

    await instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    clock.aheadMs += HOUR_MS - 20 * SECOND_MS;
    expect(await forwarding.share(made.token)).toMatchObject(opens);
    clock.aheadMs += 20 * SECOND_MS;
    expect(await forwarding.share(made.token)).toBeNull();
    expect(await ports.shares(world.caller, id)).toEqual([]);
    await world.running.access.sweep();
    expect(await world.store.read.selectFrom('portShare').selectAll().execute()).toEqual([]);
  });

  test('revocation ends it at once here and within a second elsewhere, and no other link', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock, start: false });
    const { instanceId: id } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const second = world.startAnother(world.store.kind === 'postgres' ? { store: await open.again(world.store) } : {});
    const [one, two] = [await share(world, id, 8000), await share(world, id, 8000)];
    const everywhere = [world.running, second].map(({ control }) => control.forwarding);
    for (const forwarding of everywhere) expect(await forwarding.share(one.token)).not.toBeNull();
    const { ports } = world.running.control;
    await ports.unshare(world.caller, { instanceId: id, shareId: one.shareId }, null);
    expect(await everywhere[0]?.share(one.token)).toBeNull();
    clock.aheadMs += SECOND_MS;
    for (const forwarding of everywhere) {
      expect(await forwarding.share(one.token)).toBeNull();
      expect(await forwarding.share(two.token)).not.toBeNull();
    }
    const again = ports.unshare(world.caller, { instanceId: id, shareId: one.shareId }, null);
    await expectRefused(again, 'not_found', /link ".*" not found; POST \/api\/instance\/port\/shares/);
    expect(await eventsOf(world, id)).toEqual(['instance.portShared', 'instance.portShared', 'instance.portUnshared']);
  });

  test('ends with its instance, and while its account is disabled', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock, start: false });
    const { instances, forwarding } = world.running.control;
    const { instanceId: id } = await instances.launch(world.caller, world.launchInput(), null);
    const { instanceId: other } = await instances.launch(world.caller, world.launchInput(), null);
    const [mine, others] = [await share(world, id, 8000), await share(world, other, 8000)];
    await setDisabled(world.store, 'admin', 1);
    clock.aheadMs += SECOND_MS;
    expect(await forwarding.share(mine.token)).toBeNull();
    await setDisabled(world.store, 'admin', 0);
    expect(await forwarding.share(mine.token)).not.toBeNull();
    await instances.terminate(world.caller, { instanceId: id }, null);
    expect(await forwarding.route(id)).toBeNull();
    clock.aheadMs += SECOND_MS;
    expect(await forwarding.share(mine.token)).toBeNull();
    expect(await forwarding.share(others.token)).not.toBeNull();
    expect(await world.store.read.selectFrom('portShare').select('instanceId').execute()).toEqual([
      { instanceId: other },
    ]);
  });

  test('is created once per key, and as often as the quota of its account allows', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock, start: false });
    const { instances, ports } = world.running.control;
    const { instanceId: id } = await instances.launch(world.caller, world.launchInput(), null);
    const body = { instanceId: id, port: 8000, forMs: SECOND_MS * 60, name: 'demo' };
    const key = keyed('k', '/instance/port/share');
    const { shareId, token } = await ports.share(world.caller, body, key);
    await expectRefused(ports.share(world.caller, body, key), 'not_now', new RegExp(`created the link "${shareId}"`));
    expect(await everythingIn(world.store)).not.toContain(token);
    const { accountId } = world.caller;
    await world.running.control.quotas.set(world.caller, { accountId, limits: { shares: 3 } }, null);
    for (let count = 1; count < 3; count++) await share(world, id, 8000);
    await expectRefused(share(world, id, 8000), 'over_quota', /links to ports\) is reached: the limit is 3.*unshare/);
    // An expired link doesn't count.
    clock.aheadMs += 60 * SECOND_MS;
    await share(world, id, 8000);
  });
});

onBothEngines('sessions of the gateway', (open) => {
  test('lists sessions with opening and last use, revocable by their account alone', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock, start: false });
    const { instances, forwarding, access } = world.running.control;
    const { instanceId: id } = await instances.launch(world.caller, world.launchInput(), null);
    const session = async (caller: Caller): Promise<string> => {
      const { url } = await instances.open(caller, { instanceId: id });
      return (await forwarding.redeem(new URL(url).searchParams.get('key') ?? '', visitor))?.session ?? '';
    };
    const { key } = await access.createApiKey(world.caller, { name: 'ci' }, null);
    const program = await access.authenticate({ kind: 'apiKey', key: key.fullKey });
    const [mine, others] = [await session(world.caller), await session(program)];
    // An unopened link is no session.
    await instances.open(world.caller, { instanceId: id });
    const openedAtMs = Date.now();
    clock.aheadMs += HOUR_MS;
    expect(await forwarding.session(mine)).not.toBeNull();
    const { sessions: listed } = await access.listSessions(world.caller);
    expect(listed.map(({ instanceId, from }) => ({ instanceId, from }))).toEqual([
      { instanceId: id, from: 'login' },
      { instanceId: id, from: 'apiKey' },
    ]);
    const [used, unused] = listed;
    expect(Math.abs((used?.openedAtUnixMs ?? 0) - openedAtMs)).toBeLessThan(60_000);
    expect((used?.lastUsedAtUnixMs ?? 0) - (used?.openedAtUnixMs ?? 0)).toBeGreaterThanOrEqual(HOUR_MS);
    expect(unused?.lastUsedAtUnixMs).toBe(unused?.openedAtUnixMs);
    const text = JSON.stringify(listed);
    const rows = await world.store.read.selectFrom('gatewayGrant').selectAll().execute();
    for (const secret of [mine, others, ...rows.map(({ hash }) => hash)]) expect(text).not.toContain(secret);

    const mallory = await world.account('mallory');
    expect((await access.listSessions(mallory)).sessions).toEqual([]);
    const known = { id: used?.id ?? '' };
    await expectRefused(access.revokeSession(mallory, known, null), 'not_found', /POST \/api\/user\/session\/list/);
    await access.revokeSession(world.caller, known, null);
    expect(await forwarding.session(mine)).toBeNull();
    expect(await forwarding.session(others)).not.toBeNull();
    expect((await access.listSessions(world.caller)).sessions).toHaveLength(1);
    await expectRefused(access.revokeSession(world.caller, known, null), 'not_found');
    // Nor is the handover of an unopened link.
    const handover = rows.find(({ kind }) => kind === 'handover')?.id ?? '';
    await expectRefused(access.revokeSession(world.caller, { id: handover }, null), 'not_found');
  });
});

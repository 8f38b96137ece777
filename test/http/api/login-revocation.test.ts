/**
 * Revoking a login or key ends its open connections at once, without waiting for a beat; those of
 * other logins continue.
 */
import { expect, onTestFinished, test } from 'vitest';
import { makeRevocations } from '../../../src/control/access/routing/revocations.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { eventually } from '../../fixtures/control.ts';
import { openStream } from './event-fixture.ts';
import { bearer, execFixture, openExec, openTerminal } from './exec-fixture.ts';
import { fakeCaller, fakeControl } from './fake-control.ts';
import { startEdge } from './harness.ts';

/** No beat happens. */
const NEVER_MS = 3_600_000;
const noBeats = { socketBeatMs: NEVER_MS, eventBeatMs: NEVER_MS };
const WHY = 'the login or key has ended: log in again';

type Fixture = Awaited<ReturnType<typeof execFixture>>;

const sleep = (instanceId: string) => ({ instanceId, command: ['sleep', '1000'] });

/** A log that returns one chunk and never ends. */
function neverEnding(signal: AbortSignal) {
  return (async function* () {
    for (let n = 0; n < 2_000; n += 1) yield { atMs: n, text: 'x'.repeat(100), cut: false };
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  })();
}

const openLog = ({ api }: Fixture, query: Record<string, string>, headers: Record<string, string>) =>
  openStream(api.port, { path: `/api/instance/logs?${new URLSearchParams(query)}`, headers });

async function openAll(fixture: Fixture, instanceId: string, headers: Record<string, string>) {
  const { api, world } = fixture;
  const streams = {
    exec: await openExec(api.port, sleep(instanceId), { headers }),
    terminal: await openTerminal(api.port, { instanceId }, { headers }),
    log: await openLog(fixture, { instanceId }, headers),
    events: await openStream(api.port, { headers }),
  };
  world.engine.logs = async (_id, _source, _range, signal) => neverEnding(signal);
  const download = await openLog(fixture, { instanceId, download: 'true' }, headers);
  await eventually(() => download.text().length > 0 && streams.log.text().includes(': begun'));
  return { ...streams, download };
}

for (const by of ['a logout', 'the end of an API key', 'the expiry of an API key'] as const)
  test(`${by} ends its commands, terminals, streams and downloads`, async () => {
    const fixture = await execFixture({}, noBeats);
    const { admin, api } = fixture;
    const instanceId = await admin.launch();
    const other = await admin.another();
    const expiry = by === 'the expiry of an API key' ? { expiresAtUnixMs: Date.now() + 5_000 } : {};
    const { key } = await admin.client.createApiKey({ name: 'mine', ...expiry });
    const open = await openAll(
      fixture,
      instanceId,
      by === 'a logout' ? bearer(admin.token) : { 'x-api-key': key.fullKey },
    );
    const stays = await openExec(api.port, sleep(instanceId), other);
    if (by === 'a logout') await admin.client.logout();
    else if (by === 'the end of an API key') await other.client.deleteApiKey({ id: key.id });
    expect(await open.exec.closed).toEqual({ code: 4401, why: WHY });
    expect(await open.terminal.closed).toEqual({ code: 4401, why: WHY });
    expect(await open.log.ended).toBe('end');
    expect(open.log.text()).toMatch(new RegExp(`: ${WHY}\n\n$`));
    expect(await open.events.ended).toBe('end');
    expect(await open.download.ended).toBe('cut');
    expect(open.download.text()).not.toContain(WHY);
    expect(stays.socket.readyState).toBe(stays.socket.OPEN);
    expect(api.logged.filter(({ level }) => level === 'error')).toEqual([]);
  });

test('a disable of the account ends what its logins and API keys opened, and no other', async () => {
  const fixture = await execFixture({}, noBeats);
  const { admin, api } = fixture;
  const anna = await fixture.another('anna');
  const instanceId = await anna.launch();
  const { key } = await anna.client.createApiKey({ name: 'mine' });
  const { userId: accountId } = await anna.client.userInfo({});
  const byLogin = await openAll(fixture, instanceId, bearer(anna.token));
  const byKey = await openStream(api.port, { headers: { 'x-api-key': key.fullKey } });
  const stays = await openStream(api.port, { headers: bearer(admin.token) });
  await admin.client.disableAccount({ accountId });
  expect(await byLogin.exec.closed).toEqual({ code: 4401, why: WHY });
  expect(await byLogin.terminal.closed).toEqual({ code: 4401, why: WHY });
  for (const stream of [byLogin.log, byLogin.events, byKey]) expect(await stream.ended).toBe('end');
  expect(await byLogin.download.ended).toBe('cut');
  const ended = await Promise.race([stays.ended, admin.client.userInfo({})]);
  expect(ended).toMatchObject({ username: 'admin' });
});

test('a revocation during opening refuses it, and leaves no command behind', async () => {
  const { admin, api, world } = await execFixture({}, noBeats);
  const instanceId = await admin.launch();
  const { openExec: open, followLogs: follow } = world.engine;
  const { promise: blocked, resolve: letGo } = Promise.withResolvers<void>();
  const exits: Promise<number>[] = [];
  let asked = 0;
  world.engine.openExec = async (id, request) => {
    asked += 1;
    await blocked;
    const running = await open(id, request, new AbortController().signal);
    exits.push(running.exited);
    return running;
  };
  world.engine.followLogs = async (...request) => {
    asked += 1;
    await blocked;
    return follow(...request);
  };
  const opening = openExec(api.port, sleep(instanceId), admin).catch((error: unknown) => error);
  const streaming = openStream(api.port, {
    path: `/api/instance/logs?instanceId=${instanceId}`,
    headers: bearer(admin.token),
  });
  await eventually(() => asked === 2);
  const { client } = await admin.another();
  const { authenticate } = world.running.control.access;
  let looked = 0;
  world.running.control.access.authenticate = (credential, options) =>
    authenticate(credential, options).finally(() => (looked += options?.revalidate ? 1 : 0));
  await admin.client.logout();
  await eventually(() => looked > 0);
  await client.listTerminals({ instanceId });
  letGo();
  expect(await opening).toMatchObject({ refused: { status: 401, code: 'not_logged_in' } });
  expect(await exits[0]).toBe(137);
  const stream = await streaming;
  await stream.ended;
  if (stream.status === 200) expect(stream.text()).toContain(`: ${WHY}`);
  else expect(stream.status).toBe(401);
});

test('a download ends within a second of a login revoked in another process', async () => {
  const fixture = await execFixture({}, noBeats);
  const { admin, world } = fixture;
  const instanceId = await admin.launch();
  world.engine.logs = async (_id, _source, _range, signal) =>
    (async function* () {
      for (let n = 0; !signal.aborted; n += 1) {
        if (n % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
        yield { atMs: n, text: 'x'.repeat(200), cut: false };
      }
    })();
  const download = await openLog(fixture, { instanceId, download: 'true' }, bearer(admin.token));
  await eventually(() => download.text().length > 0);
  const { access } = world.startAnother({});
  await access.logout(await access.authenticate({ kind: 'token', token: admin.token }));
  expect(await download.ended).toBe('cut');
});

test('a revocation cuts a file download', async () => {
  let isLoggedIn = true;
  const { promise: never } = Promise.withResolvers<void>();
  const endings = makeRevocations();
  const control = fakeControl({
    access: {
      async authenticate() {
        if (isLoggedIn) return fakeCaller;
        throw new Refusal('not_logged_in', 'log in again');
      },
    },
    files: {
      async read(_caller, _path, fn) {
        async function* bytes() {
          yield Buffer.from('begun');
          await never;
        }
        return fn({ sizeBytes: 1_000, modifiedAtMs: 0, version: '1', bytes }, new AbortController().signal);
      },
    },
    forwarding: { onRevoked: endings.onRevoked },
  });
  const api = await startEdge(control);
  onTestFinished(() => api.stop());
  const download = await openStream(api.port, { path: '/api/storage/volume/v/files/x', headers: bearer('x') });
  await eventually(() => download.text() === 'begun');
  isLoggedIn = false;
  endings.publish({ accountId: fakeCaller.accountId });
  expect(await download.ended).toBe('cut');
});

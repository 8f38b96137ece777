/**
 * Terminals through the API on the simulated engine: created, detached, resumed, shared, resized
 * and closed.
 */
import { expect, test } from 'vitest';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { execFixture, openTerminal, RefusedUpgrade, type Asking, type Refused } from './exec-fixture.ts';

const NOBODY = 'notebook-00000000-0000-4000-8000-000000000000';
const DAY_MS = 24 * 3_600_000;

test('creates a missing terminal, detaches, and resumes it with its screen', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const first = await openTerminal(api.port, { instanceId, terminal: 'work', columns: 100, rows: 30 }, admin);
  await eventually(() => first.messages.length > 0);
  expect(first.messages[0]).toEqual({ type: 'attached', terminal: 'work', created: true, columns: 100, rows: 30 });
  first.type('echo one\r');
  await first.waitForText('\r\none\r\n');
  first.socket.close();
  await first.closed;
  await eventually(async () => (await admin.client.listTerminals({ instanceId })).terminals[0]?.viewers === 0);

  const again = await openTerminal(api.port, { instanceId, terminal: 'work', columns: 100, rows: 30 }, admin);
  await again.waitForText('\r\none\r\n');
  expect(again.messages[0]).toMatchObject({ type: 'attached', created: false });
  again.type('echo two\r');
  await again.waitForText('\r\ntwo\r\n');
  again.type('exit 7\r');
  expect(await again.closed).toEqual({ code: 1000, why: 'the shell ended' });
  expect(again.messages.at(-1)).toEqual({ type: 'exit', exitCode: 7 });
  await eventually(async () => (await admin.client.listTerminals({ instanceId })).terminals.length === 0);
});

test('several viewers share a terminal: each sees and types, and the last to attach or resize sets the size', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const one = await openTerminal(api.port, { instanceId, columns: 80, rows: 24 }, admin);
  await one.waitForText('# ');
  const two = await openTerminal(api.port, { instanceId, columns: 120, rows: 40 }, admin);
  await eventually(() => one.messages.some((messages) => messages['type'] === 'size'));
  expect(one.messages.at(-1)).toEqual({ type: 'size', columns: 120, rows: 40 });
  one.type('stty size\r');
  for (const viewer of [one, two]) await viewer.waitForText('\r\n40 120\r\n');
  one.resize(90, 20);
  await eventually(() => two.messages.some((messages) => messages['rows'] === 20));
  two.type('stty size\r');
  for (const viewer of [one, two]) await viewer.waitForText('\r\n20 90\r\n');
  const { terminals } = await admin.client.listTerminals({ instanceId });
  expect(terminals).toEqual([
    { terminal: 'main', columns: 90, rows: 20, viewers: 2, createdAtUnixMs: expect.any(Number), closesAtUnixMs: null },
  ]);
});

test('two terminals are separate, and listed by name', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const other = await admin.launch();
  const b = await openTerminal(api.port, { instanceId, terminal: 'b' }, admin);
  const a = await openTerminal(api.port, { instanceId, terminal: 'a.1_x-Y' }, admin);
  const elsewhere = await openTerminal(api.port, { instanceId: other, terminal: 'b' }, admin);
  b.type('echo only here\r');
  await b.waitForText('\r\nonly here\r\n');
  for (const viewer of [a, elsewhere]) {
    await viewer.waitForText('# ');
    expect(viewer.shown()).not.toContain('only here');
  }
  const { terminals } = await admin.client.listTerminals({ instanceId });
  expect(terminals.map(({ terminal }) => terminal)).toEqual(['a.1_x-Y', 'b']);
});

test('Ctrl-C ends a command, not the terminal', async () => {
  const { admin, api } = await execFixture();
  const terminal = await openTerminal(api.port, { instanceId: await admin.launch() }, admin);
  await terminal.waitForText('# ');
  terminal.type('sleep 1000\r');
  await terminal.waitForText('sleep 1000\r\n');
  terminal.type('\x03');
  await terminal.waitForText('^C\r\n');
  terminal.type('echo $?\r');
  await terminal.waitForText('130\r\n');
  expect(terminal.socket.readyState).toBe(terminal.socket.OPEN);
});

test('close kills the shell and disconnects viewers; the next of the name is new', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const viewer = await openTerminal(api.port, { instanceId, terminal: 'x' }, admin);
  viewer.type('echo before\r');
  await viewer.waitForText('\r\nbefore\r\n');
  await admin.client.closeTerminal({ instanceId, terminal: 'x' });
  expect(await viewer.closed).toEqual({ code: 4410, why: 'the terminal was closed' });
  const none = await api.post('/instance/terminal/close', { instanceId, terminal: 'x' }, { token: admin.token });
  expect(none).toMatchObject({ status: 404, json: { message: 'the instance has no open terminal x' } });
  const next = await openTerminal(api.port, { instanceId, terminal: 'x' }, admin);
  await next.waitForText('# ');
  expect(next.messages[0]).toMatchObject({ created: true });
  expect(next.shown()).not.toContain('before');
});

test('a terminal ends with the instance’s run; the next start has a new one', async () => {
  const { admin, api, world } = await execFixture();
  const instanceId = await admin.launch();
  const viewer = await openTerminal(api.port, { instanceId }, admin);
  await viewer.waitForText('# ');
  await admin.client.stop({ instanceId });
  expect((await viewer.closed).code).toBe(4410);
  await world.until(instanceId, hasStatus('Stopped'));
  expect((await admin.client.listTerminals({ instanceId })).terminals).toEqual([]);
  await admin.client.start({ instanceId });
  await world.until(instanceId, hasStatus('Running'));
  const next = await openTerminal(api.port, { instanceId }, admin);
  await next.waitForText('# ');
  expect(next.messages[0]).toMatchObject({ created: true });
});

test('a full-screen program redraws for a new viewer', async () => {
  const { admin, api, world } = await execFixture();
  const instanceId = await admin.launch();
  const sizes: string[] = [];
  const { openExec: open } = world.engine;
  world.engine.openExec = async (...asked) => {
    const running = await open(...asked);
    const { resize } = running;
    return {
      ...running,
      resize(size) {
        sizes.push(`${size.columns}x${size.rows}`);
        return resize(size);
      },
    };
  };
  const first = await openTerminal(api.port, { instanceId, columns: 80, rows: 24 }, admin);
  first.type("echo '\x1b[?1049h'\r");
  await first.waitForText('\r\n\x1b[?1049h');
  expect(sizes).toEqual([]);
  const second = await openTerminal(api.port, { instanceId, columns: 80, rows: 24 }, admin);
  await second.waitForText('\x1b[?1049h');
  await eventually(
    () => sizes.length === 2,
    () => sizes,
  );
  expect(sizes).toEqual(['80x23', '80x24']);
});

/** `days`: timers of a day or longer. */
async function fixtureWithDayTimers() {
  const due: { ms: number; fn: () => void }[] = [];
  const fixture = await execFixture({
    time: {
      after(ms, fn) {
        const one = { ms, fn };
        due.push(one);
        return () => void due.splice(due.indexOf(one), 1);
      },
    },
  });
  return { ...fixture, days: () => due.filter(({ ms }) => ms >= DAY_MS) };
}

test('a terminal that ends under a viewer leaves nothing behind', async () => {
  const { admin, api, days } = await fixtureWithDayTimers();
  const instanceId = await admin.launch();
  for (const end of ['exit', 'close']) {
    const viewer = await openTerminal(api.port, { instanceId }, admin);
    await viewer.waitForText('# ');
    if (end === 'exit') viewer.type('exit\r');
    else await admin.client.closeTerminal({ instanceId, terminal: 'main' });
    await viewer.closed;
    await eventually(async () => (await admin.client.listTerminals({ instanceId })).terminals.length === 0);
    expect(days(), end).toEqual([]);
  }
});

test('an abandoned terminal is closed after a day, not before', async () => {
  const { admin, api, world, days } = await fixtureWithDayTimers();
  const instanceId = await admin.launch();
  const viewer = await openTerminal(api.port, { instanceId }, admin);
  await viewer.waitForText('# ');
  expect(days(), 'a terminal with a viewer stays open').toEqual([]);
  viewer.socket.close();
  await eventually(() => days().length === 1);
  const { terminals } = await admin.client.listTerminals({ instanceId });
  expect(terminals[0]?.closesAtUnixMs).toBeGreaterThan(Date.now() + DAY_MS - 60_000);
  expect(terminals[0]?.closesAtUnixMs).toBeLessThanOrEqual(Date.now() + DAY_MS);
  const again = await openTerminal(api.port, { instanceId }, admin);
  await again.waitForText('# ');
  expect(days(), 'an attach postpones the close').toEqual([]);
  again.socket.close();
  await eventually(() => days().length === 1);
  days()[0]?.fn();
  await eventually(async () => (await admin.client.listTerminals({ instanceId })).terminals.length === 0);
  expect(world.running).toBeDefined();
});

test('the instance is in use exactly while a viewer is attached', async () => {
  const { admin, api } = await execFixture({ idleLimits: { checkEveryMs: 20 } });
  const instanceId = await admin.launch();
  await admin.client.ends({ instanceId, idleStop: { afterMinutes: 60 } });
  const http = async () =>
    (await admin.client.activity({ instanceId })).signals.find(({ name }) => name === 'http')?.text ?? '';
  const viewer = await openTerminal(api.port, { instanceId }, admin);
  await eventually(
    async () => /1 request or WebSocket is open/.test(await http()),
    () => 'otherwise',
  );
  viewer.socket.close();
  await eventually(async () => /the last data came through the gateway/.test(await http()));
  expect((await admin.client.listTerminals({ instanceId })).terminals).toHaveLength(1);
});

test('a slow viewer alone blocks the shell; with a second viewer it restarts from the buffer', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const slow = await openTerminal(api.port, { instanceId }, admin);
  await slow.waitForText('# ');
  slow.socket.pause();
  const quick = await openTerminal(api.port, { instanceId }, admin);
  // The echo of the command does not contain its output.
  quick.type('head -c 30000000 /dev/zero; echo do""ne\r');
  await eventually(() => quick.shown().slice(-200).includes('done\r\n'));
  slow.socket.resume();
  await slow.waitForText('done\r\n');
  expect(slow.messages.filter(({ type }) => type === 'reset').length).toBeGreaterThan(0);
  expect(slow.shown().length).toBeLessThanOrEqual(300 * 1024);
});

async function refusal(port: number, query: Record<string, string | number>, asking: Asking): Promise<Refused> {
  try {
    await openTerminal(port, query, asking);
  } catch (error) {
    if (error instanceof RefusedUpgrade) return error.refused;
    throw error;
  }
  throw new Error('the socket was opened');
}

test('refuses unauthorized callers and invalid requests before the upgrade', async () => {
  const { admin, api, another, world } = await execFixture();
  const instanceId = await admin.launch();
  const stopped = await admin.launch();
  await admin.client.stop({ instanceId: stopped });
  await world.until(stopped, hasStatus('Stopped'));
  const mallory = await another('mallory');
  const cookie = `AccessToken=${admin.token}`;
  const cases: [string, Record<string, string | number>, Asking, number, RegExp][] = [
    ['a stranger', { instanceId }, { headers: {} }, 401, /not logged in/],
    ["another's", { instanceId }, mallory, 404, /ent: instance not found/],
    ['an unknown one', { instanceId: NOBODY }, admin, 404, /ent: instance not found/],
    ['a stopped one', { instanceId: stopped }, admin, 409, /is Stopped, and commands run only in a Running instance/],
    ['no instance', {}, admin, 400, /field \\"instanceId\\" is not set/],
    ...['', ' ', 'a b', '../x', '-a', 'a\nb', 'x'.repeat(65), 'ö', 'a/b', '\0'].map(
      (terminal): [string, Record<string, string>, Asking, number, RegExp] => [
        `the name ${JSON.stringify(terminal)}`,
        { instanceId, terminal },
        admin,
        400,
        /it must be 1 to 64 letters, digits, dots, dashes or underscores/,
      ],
    ),
    ['no columns', { instanceId, columns: 0 }, admin, 400, /columns.*must be a whole number from 1 to 1000/],
    ['words for rows', { instanceId, rows: 'many' }, admin, 400, /type mismatch for field .*rows/],
    ['too many rows', { instanceId, rows: 1_001 }, admin, 400, /from 1 to 1000/],
    ['a foreign page', { instanceId }, { headers: { cookie, origin: 'http://127.0.0.1:1' } }, 403, /another origin/],
    ['another protocol', { instanceId }, { token: admin.token, protocol: 'x' }, 400, /berth.terminal.v1/],
  ];
  for (const [name, query, asking, status, words] of cases)
    expect(await refusal(api.port, query, asking), name).toMatchObject({ status, text: expect.stringMatching(words) });
  expect((await admin.client.listTerminals({ instanceId })).terminals).toEqual([]);
  for (const [route, body] of Object.entries({ list: { instanceId }, close: { instanceId, terminal: 'main' } })) {
    const reply = await api.post(`/instance/terminal/${route}`, body, mallory);
    expect(reply).toMatchObject({ status: 404, json: { message: 'ent: instance not found' } });
  }
});

test('an instance has 16 terminals, a terminal 8 viewers; refusals name limit and fix', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  for (let n = 0; n < 16; n++) await openTerminal(api.port, { instanceId, terminal: `t${n}` }, admin);
  expect(await refusal(api.port, { instanceId, terminal: 't16' }, admin)).toMatchObject({
    status: 429,
    text: expect.stringMatching(/this instance has 16 open terminals, the limit; close one/),
  });
  for (let n = 0; n < 7; n++) await openTerminal(api.port, { instanceId, terminal: 't0' }, admin);
  expect(await refusal(api.port, { instanceId, terminal: 't0' }, admin)).toMatchObject({
    status: 429,
    text: expect.stringMatching(/terminal t0 has 8 viewers/),
  });
});

test('an account has 64 viewers over all terminals, and a free slot when one leaves', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const viewers = [];
  for (let n = 0; n < 64; n++) viewers.push(await openTerminal(api.port, { instanceId, terminal: `t${n % 8}` }, admin));
  expect(await refusal(api.port, { instanceId, terminal: 'other' }, admin)).toMatchObject({
    status: 429,
    text: expect.stringMatching(/64 of your viewers are attached to terminals/),
  });
  viewers[0]?.socket.close();
  await viewers[0]?.closed;
  await eventually(() =>
    openTerminal(api.port, { instanceId, terminal: 'other' }, admin).then(
      () => true,
      () => false,
    ),
  );
});

test('two concurrent creations of a name share one terminal', async () => {
  const { admin, api } = await execFixture();
  const instanceId = await admin.launch();
  const viewers = await Promise.all([1, 2, 3].map(() => openTerminal(api.port, { instanceId }, admin)));
  await eventually(() => viewers.every(({ messages }) => messages.length > 0));
  expect(viewers.filter(({ messages }) => messages[0]?.['created'] === true)).toHaveLength(1);
  viewers[0]?.type('echo together\r');
  for (const viewer of viewers) await viewer.waitForText('\r\ntogether\r\n');
});

test('an invalid message closes with a code and keeps the terminal; a revoked login closes with another code', async () => {
  const { admin, api } = await execFixture({}, { socketBeatMs: 50 });
  const instanceId = await admin.launch();
  for (const text of [
    '',
    '{',
    '{"type":"resize"}',
    '{"type":"resize","columns":1e9,"rows":1}',
    '{"type":"other"}',
    'null',
  ]) {
    const viewer = await openTerminal(api.port, { instanceId }, admin);
    viewer.socket.send(text);
    expect((await viewer.closed).code, text).toBe(4400);
  }
  const viewer = await openTerminal(api.port, { instanceId }, admin);
  await viewer.waitForText('# ');
  expect(viewer.messages[0]).toMatchObject({ created: false });
  const { client, token } = await admin.another();
  await admin.client.logout();
  expect(await viewer.closed).toEqual({ code: 4401, why: 'the login or key has ended: log in again' });
  expect((await client.listTerminals({ instanceId })).terminals).toHaveLength(1);
  expect(token).not.toBe(admin.token);
});

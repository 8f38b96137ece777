/** Pages of an instance's logs, on real control and the simulated engine, for the owner alone. */
import { expect, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { appendEvent } from '../../../src/store/tables/events.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { notebookTokens } from '../../fixtures/test-seal.ts';
import { linesIn, logFixture, messagesIn, SAYS } from './log-fixture.ts';

test('pages the console: each line once, with its time and the next cursor', async () => {
  const { world, client, launched } = await logFixture();
  const instanceId = await launched(SAYS);
  await eventually(async () => (await client.logs({ instanceId })).lines.at(-1)?.text === 'line 5');
  const all = await client.logs({ instanceId });
  expect(all).toMatchObject({ instanceId, source: 'console', more: false, gap: false });
  const texts = all.lines.map(({ text }) => text);
  expect(texts.slice(-6)).toEqual([0, 1, 2, 3, 4, 5].map((n) => `line ${n}`));
  const times = all.lines.map(({ atUnixMs }) => atUnixMs ?? 0);
  expect(times.toSorted((a, b) => a - b)).toEqual(times);
  expect(Math.abs((times[0] ?? 0) - Date.now())).toBeLessThan(20_000);

  const paged: string[] = [];
  for (let after: string | null = null, more = true; more;) {
    const page = await client.logs({ instanceId, limit: 2, ...(after === null ? {} : { after }) });
    expect(page.lines.length).toBeLessThanOrEqual(2);
    paged.push(...page.lines.map(({ text }) => text));
    ({ next: after, more } = page);
  }
  expect(paged).toEqual(texts);

  const sinceUnixMs = times.at(-4) ?? 0;
  const untilUnixMs = times.at(-1) ?? 0;
  const within = await client.logs({ instanceId, sinceUnixMs, untilUnixMs });
  expect(within.lines.map(({ text }) => text)).toEqual(['line 2', 'line 3', 'line 4']);
  const last = await client.logs({ instanceId, tail: 2 });
  expect(last.lines.map(({ text }) => text)).toEqual(['line 4', 'line 5']);
  expect(last.next).toBe(all.next);
  expect(await client.logs({ instanceId, after: all.next ?? '' })).toMatchObject({
    lines: [],
    next: all.next,
    more: false,
  });

  // A Stopped instance still has its console; the init script's log is on its disk.
  await world.running.control.instances.stop(world.caller, { instanceId }, null);
  await world.until(instanceId, hasStatus('Stopped'));
  expect((await client.logs({ instanceId, tail: 1 })).lines[0]?.text).toBe('line 5');
  await expect(client.logs({ instanceId, source: 'init' })).rejects.toMatchObject({
    status: 409,
    code: 'not_now',
    message: expect.stringContaining('the instance is Stopped: start it'),
  });
});

test('a stopped instance whose region keeps no root disks says why it has no logs', async () => {
  const { client, launched, world } = await logFixture({}, { capabilities: { keepsRootDisk: false } });
  const instanceId = await launched(SAYS);
  await world.running.control.instances.stop(world.caller, { instanceId }, null);
  await world.until(instanceId, hasStatus('Stopped'));
  for (const source of ['console', 'init'] as const)
    await expect(client.logs({ instanceId, source })).rejects.toMatchObject({
      status: 409,
      code: 'not_now',
      message: expect.stringMatching(/is Stopped, and .* ended with its run, as its root disk did: start the instance/),
    });
  expect((await client.logs({ instanceId, source: 'events' })).lines).not.toEqual([]);
});

test('pages init script and events in the same shape', async () => {
  const { client, launched } = await logFixture();
  const instanceId = await launched('# berth-sim: init says after 0ms one\n# berth-sim: init says after 10ms two\n');
  await eventually(async () => (await client.logs({ instanceId, source: 'init' })).lines.length === 2);
  const init = await client.logs({ instanceId, source: 'init', limit: 1 });
  expect(init).toMatchObject({ lines: [{ atUnixMs: null, text: 'one', cut: false }], next: '1', more: true });
  expect(await client.logs({ instanceId, source: 'init', after: '1' })).toMatchObject({
    lines: [{ text: 'two' }],
    next: '2',
    more: false,
  });

  const other = await launched('');
  const events = await client.logs({ instanceId, source: 'events' });
  expect(events.lines[0]).toMatchObject({ text: expect.stringMatching(/^instance\.launched \{/), cut: false });
  expect(events.lines.at(-1)?.text).toMatch(/^instance\.observed \{.*"status":"Running"/);
  const numbers = (await client.logs({ instanceId: other, source: 'events' })).lines.length;
  expect(numbers).toBeGreaterThan(2);
  const tail = await client.logs({ instanceId, source: 'events', tail: 2 });
  expect(tail.lines).toEqual(events.lines.slice(-2));
  const from = events.lines[1]?.atUnixMs ?? 0;
  const since = await client.logs({ instanceId, source: 'events', sinceUnixMs: from });
  expect(since.lines).toEqual(events.lines.filter(({ atUnixMs }) => (atUnixMs ?? 0) >= from));
  const until = await client.logs({ instanceId, source: 'events', untilUnixMs: from });
  expect(until.lines).toEqual(events.lines.filter(({ atUnixMs }) => (atUnixMs ?? 0) < from));
  const paged: string[] = [];
  for (let after: string | null = null, more = true; more;) {
    const page = await client.logs({ instanceId, source: 'events', limit: 1, ...(after === null ? {} : { after }) });
    paged.push(...page.lines.map(({ text }) => text));
    ({ next: after, more } = page);
  }
  expect(paged).toEqual(events.lines.map(({ text }) => text));
});

test('finds events of one instance among thousands of others, from either end', async () => {
  const { world, client, launched } = await logFixture({}, { start: true });
  const instanceId = await launched('');
  const before = (await client.logs({ instanceId, source: 'events' })).lines.length;
  const { accountId } = world.caller;
  const other = { accountId, atMs: Date.now(), kind: 'test.other', subjectId: 'another', data: {} };
  await world.store.write(async (tx) => {
    for (let n = 0; n < 4_500; n += 1) await appendEvent(tx, other);
    await appendEvent(tx, { ...other, kind: 'test.mine', subjectId: instanceId });
  });
  const all = await client.logs({ instanceId, source: 'events' });
  expect(all.lines).toHaveLength(before + 1);
  expect(all.lines.at(-1)?.text).toBe('test.mine');
  expect((await client.logs({ instanceId, source: 'events', tail: 2 })).lines).toEqual(all.lines.slice(-2));
});

test('a page holds a mebibyte, has a next cursor, and at least one line', async () => {
  const { world, client, launched } = await logFixture();
  const instanceId = await launched('');
  const many = Array.from({ length: 100 }, (_, n) => ({
    atMs: 1_000 + n,
    text: `${n} ${'⚓'.repeat(5_000)}`,
    cut: n === 0,
  }));
  world.engine.logs = async (_id, _source, { sinceMs = 0 }) =>
    ReadableStream.from(many.filter(({ atMs }) => atMs >= sinceMs));
  const page = await client.logs({ instanceId });
  expect(page.lines).toHaveLength(69);
  expect([page.more, page.next, page.lines[0]?.cut, page.lines[1]?.cut]).toEqual([true, '1068.1', true, false]);
  const rest = await client.logs({ instanceId, after: '1068.1' });
  expect(rest.lines.map(({ text }) => Number.parseInt(text, 10))).toEqual(Array.from({ length: 31 }, (_, n) => n + 69));
});

test("the notebook's secret is in no log", async () => {
  const { world, client, launched, stream } = await logFixture();
  const instanceId = await launched('');
  const row = await world.store.read
    .selectFrom('instance')
    .select(['id', 'notebookToken'])
    .where('id', '=', instanceId)
    .executeTakeFirstOrThrow();
  const notebookToken = notebookTokens.open(row);
  const said = { atMs: 1_000, text: `http://localhost:8888/?token=${notebookToken} ${notebookToken}`, cut: false };
  world.engine.logs = async () => ReadableStream.from([said]);
  world.engine.followLogs = async () => ReadableStream.from([said]);
  const hidden = "http://localhost:8888/?token=[the notebook's secret] [the notebook's secret]";
  expect((await client.logs({ instanceId })).lines).toEqual([{ atUnixMs: 1_000, text: hidden, cut: false }]);
  expect((await client.logs({ instanceId, tail: 1 })).lines[0]?.text).toBe(hidden);
  expect(await (await client.downloadLog(instanceId, { times: false })).text()).toBe(`${hidden}\n`);
  const queries: Record<string, string>[] = [{ instanceId }, { instanceId, tail: '1' }];
  for (const query of queries) {
    const open = await stream(query);
    await eventually(() => linesIn(open).length === 1);
    expect(linesIn(open)).toEqual([hidden]);
  }
});

test('refuses too many at once with a reason; an unreachable engine is a 503 with Retry-After', async () => {
  const { world, client, launched, logs } = await logFixture();
  const instanceId = await launched('');
  const real = world.engine.logs.bind(world.engine);
  const waiting: (() => void)[] = [];
  world.engine.logs = async (...asked) => {
    await new Promise<void>((resolve) => waiting.push(resolve));
    return real(...asked);
  };
  const under = Array.from({ length: 4 }, () => client.logs({ instanceId }));
  await eventually(() => waiting.length === 4);
  expect(await logs({ instanceId })).toMatchObject({
    status: 429,
    headers: { 'retry-after': '1' },
    json: { message: '4 of your log requests are running, the limit; try again when one has ended' },
  });
  for (const go of waiting) go();
  await Promise.all(under);
  world.engine.logs = real;
  const faults = [{ mode: 'failBefore' }, { mode: 'failBefore', kind: 'rejected' }] as const;
  let asked = 0;
  world.engine.misbehave(({ verb }) => (verb === 'logs' ? faults[asked++] : undefined));
  expect(await logs({ instanceId })).toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
  expect(await logs({ instanceId })).toMatchObject({ status: 400, headers: { 'x-error-code': 'unsupported' } });
  expect(await logs({ instanceId })).toMatchObject({ status: 200 });
});

test('a terminated instance reports its console as gone, and keeps its events', async () => {
  const { world, client, launched, logs, stream } = await logFixture();
  const instanceId = await launched('');
  await world.running.control.instances.terminate(world.caller, { instanceId }, null);
  for (const [source, what] of [
    ['console', 'the console'],
    ['init', 'the log of the init script'],
  ] as const)
    expect(await logs({ instanceId, source })).toMatchObject({
      status: 409,
      json: {
        message: `instance ${instanceId} is terminated, and ${what} was removed; send source "events" for the history of the instance`,
      },
    });
  expect((await stream({ instanceId })).status).toBe(409);
  expect((await client.logs({ instanceId, source: 'events', tail: 50 })).lines.map(({ text }) => text)).toContainEqual(
    expect.stringMatching(/^instance\.released/),
  );
  const events = await stream({ instanceId, source: 'events' });
  expect(await events.ended).toBe('end');
  expect(messagesIn(events).at(-1)).toMatchObject({ event: 'end' });
});

test("answers for another account's instance as for an unknown one, on each log route", async () => {
  const { world, api, launched, logs } = await logFixture();
  const instanceId = await launched('');
  await world.account('mallory');
  const { accessToken: mallory } = await makeClient({ baseUrl: api.baseUrl }).login({
    username: 'mallory',
    password: 'battery staple',
  });
  for (const id of [instanceId, 'notebook-00000000-0000-4000-8000-000000000000', 'x'])
    for (const source of ['console', 'init', 'events']) {
      expect(await logs({ instanceId: id, source }, mallory)).toMatchObject({
        status: 404,
        json: { message: 'ent: instance not found' },
      });
      for (const more of ['', '&download=true'])
        expect(
          await api.send(`/api/instance/logs?instanceId=${id}&source=${source}${more}`, { token: mallory }),
        ).toMatchObject({ status: 404, json: { message: 'ent: instance not found' } });
    }
  expect(await api.send(`/api/instance/logs?instanceId=${instanceId}`)).toMatchObject({
    status: 401,
    json: { code: -1 },
  });
});

/**
 * The live stream: each reader that resumes gets every event of its own account once and in order.
 */
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Caller, Credential } from '../../../src/control/index.ts';
import { makeAccountVersions } from '../../../src/control/delivery/account-versions.ts';
import { makeEventFeed } from '../../../src/control/delivery/event-feed.ts';
import type { RunningControl } from '../../../src/main/control.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { appendEvent } from '../../../src/store/tables/events.ts';
import { onBothEngines, openTempStore } from '../../fixtures/store.ts';
import { insertOwners } from '../../db/store/rows.ts';
import { eventually } from '../../fixtures/control.ts';
import { bearer, eventFixture, lastIdIn, messagesIn, openStream, type Someone } from './event-fixture.ts';
import { fakeControl, GOOD_TOKEN } from './fake-control.ts';
import { startEdge } from './harness.ts';

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, index) => from + index);

/**
 * Reads from `first` to `last`, cutting the connection at random points and resuming by
 * `Last-Event-ID`.
 */
async function readWithBreaks(port: number, who: Someone, last: number, onBreak: () => void): Promise<number[]> {
  const seqs: number[] = [];
  let at = who.base;
  for (;;) {
    const stream = await openStream(port, { headers: { ...bearer(who), 'last-event-id': String(at) } });
    const enough = Math.random() * 40;
    let done = false;
    await eventually(
      () => {
        const messages = messagesIn(stream.text());
        done = messages.some(({ id }) => id >= last);
        return done || messages.length > enough;
      },
      () => stream.text(),
    );
    stream.close();
    for (const { id, event, data } of messagesIn(stream.text())) {
      expect({ event, seq: data['seq'], subjectId: data['subjectId'] }).toEqual({
        event: 'test.happened',
        seq: id,
        subjectId: who.accountId,
      });
      seqs.push(id);
      at = id;
    }
    if (done) return seqs;
    onBreak();
  }
}

onBothEngines('the event stream', (open) => {
  test('each account reads exactly its own numbers, in order, under heavy writes and broken connections', async () => {
    const fixture = await eventFixture(await open());
    const [ann, bob] = [await fixture.another(), await fixture.another()];
    const broken = new Set<Someone>();
    const storm = async (who: Someone): Promise<void> => {
      for (let wave = 0; wave < 6; wave++) {
        if (wave === 3) await eventually(() => broken.has(who));
        await who.happens(50);
      }
    };
    const reads = async (who: Someone): Promise<void> => {
      const seqs = await readWithBreaks(fixture.api.port, who, who.base + 300, () => broken.add(who));
      expect(seqs).toEqual(range(who.base + 1, who.base + 300));
    };
    await Promise.all([storm(ann), storm(bob), reads(ann), reads(bob)]);
  });

  test('each event arrives on an idle stream, without a further event or heartbeat', async () => {
    const { api, admin } = await eventFixture(await open(), { eventBeatMs: 3_600_000 });
    const stream = await openStream(api.port, { headers: bearer(admin) });
    await eventually(() => lastIdIn(stream.text()) >= 0);
    for (let round = 1; round <= 20; round++) {
      await admin.happens(1);
      await eventually(() => messagesIn(stream.text()).length === round);
    }
    expect(stream.text()).not.toContain(': beat');
  });

  test('without a number it starts at the present, and reports its position', async () => {
    const { api, admin } = await eventFixture(await open());
    await admin.happens(3);
    const stream = await openStream(api.port, { headers: bearer(admin) });
    await eventually(() => stream.text().includes('id: '));
    const now = lastIdIn(stream.text());
    await admin.happens(1, { said: 'a\nb "c" ü' });
    await eventually(() => messagesIn(stream.text()).length === 1);
    expect(stream).toMatchObject({
      status: 200,
      headers: {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
      },
    });
    const data = JSON.stringify({
      seq: now + 1,
      kind: 'test.happened',
      subjectId: admin.accountId,
      atUnixMs: 5,
      data: { said: 'a\nb "c" ü', n: 0 },
    });
    expect(stream.text()).toBe(`retry: 2000\nid: ${now}\n\nid: ${now + 1}\nevent: test.happened\ndata: ${data}\n\n`);
  });

  test('reports expired events as a gap, then continues', async () => {
    const store = await open();
    const { api, admin, another } = await eventFixture(store);
    const ann = await another();
    await admin.happens(30);
    await ann.happens(10 - ann.base);
    await store.write((tx) =>
      tx.deleteFrom('event').where('accountId', '=', ann.accountId).where('seq', '<=', 6).execute(),
    );
    const stream = await openStream(api.port, { path: '/api/events?after=2', headers: bearer(ann) });
    await eventually(() => messagesIn(stream.text()).length === 5);
    expect(messagesIn(stream.text()).map(({ id, event }) => [id, event])).toEqual([
      [6, 'gap'],
      ...range(7, 10).map((seq) => [seq, 'test.happened']),
    ]);
    expect(messagesIn(stream.text())[0]?.data).toEqual({
      fromSeq: 3,
      toSeq: 6,
      why: expect.stringContaining('no longer stored'),
    });

    // All events expired: the gap reaches to now, and the next event follows.
    await store.write((tx) => tx.deleteFrom('event').where('accountId', '=', ann.accountId).execute());
    const later = await openStream(api.port, { path: '/api/events?after=0', headers: bearer(ann) });
    await eventually(() => messagesIn(later.text()).length === 1);
    expect(messagesIn(later.text())[0]).toMatchObject({ id: 10, event: 'gap', data: { fromSeq: 1, toSeq: 10 } });
    await ann.happens(1);
    await eventually(() => messagesIn(later.text()).length === 2);
    expect(messagesIn(later.text())[1]).toMatchObject({ id: 11, event: 'test.happened' });
  });

  test('reports a future number as a gap, and skips no event after it', async () => {
    const { api, another } = await eventFixture(await open());
    const ann = await another();
    await ann.happens(4 - ann.base);
    const stream = await openStream(api.port, { path: '/api/events?after=90', headers: bearer(ann) });
    await eventually(() => messagesIn(stream.text()).length === 1);
    expect(messagesIn(stream.text())[0]).toMatchObject({
      id: 4,
      event: 'gap',
      data: { fromSeq: 5, toSeq: 90, why: expect.stringContaining('no events have these numbers yet') },
    });
    await ann.happens(1);
    await eventually(() => messagesIn(stream.text()).length === 2);
    expect(messagesIn(stream.text())[1]).toMatchObject({ id: 5, event: 'test.happened' });
  });

  test('a stalled reader costs a bounded number of pages, and misses nothing when it resumes', async () => {
    const store = await open();
    const { world, api, another } = await eventFixture(store);
    const { events } = world.running.control;
    const follow = events.follow.bind(events);
    let drawn = 0;
    events.follow = async function* counting(...given) {
      for await (const page of follow(...given)) {
        drawn += page.events.length;
        yield page;
      }
    };
    const ann = await another();
    const filler = 'x'.repeat(8_000);
    await ann.happenTogether(3_000, { filler });
    const stream = await openStream(api.port, { path: `/api/events?after=${ann.base}`, headers: bearer(ann) });
    stream.pause();
    let before = -1;
    await eventually(async () => {
      const still = drawn > 0 && drawn === before;
      before = drawn;
      await new Promise((resolve) => setTimeout(resolve, 150));
      return still;
    });
    expect(drawn).toBeLessThan(1_500);
    stream.resume();
    const last = ann.base + 3_000;
    await eventually(() => stream.text().includes(`id: ${last}\n`));
    expect(messagesIn(stream.text()).map(({ id }) => id)).toEqual(range(ann.base + 1, last));
  });
});

test('the header takes precedence over the query; refuses non-numbers and callers without a login', async () => {
  const { store, remove } = await openTempStore();
  const { api, another } = await eventFixture(store);
  const ann = await another();
  await ann.happens(5 - ann.base);
  const both = await openStream(api.port, {
    path: '/api/events?after=1',
    headers: { ...bearer(ann), 'last-event-id': '4' },
  });
  await eventually(() => messagesIn(both.text()).length === 1);
  expect(messagesIn(both.text())[0]?.id).toBe(5);

  for (const path of [
    '?after=-1',
    '?after=1.5',
    '?after=x',
    '?after=',
    '?after=1&after=2',
    `?after=${'9'.repeat(16)}`,
  ]) {
    const refused = await api.send(`/api/events${path}`, { token: ann.token });
    expect({ path, status: refused.status, code: refused.headers['x-error-code'] }).toEqual({
      path,
      status: 400,
      code: 'field_value',
    });
    expect(refused.json).toMatchObject({ status: 400, message: expect.stringContaining('"after"') });
  }
  const header = await api.send('/api/events', { token: ann.token, headers: { 'last-event-id': 'new' } });
  expect(header.json).toMatchObject({ status: 400, message: expect.stringContaining('"Last-Event-ID"') });

  expect(await api.send('/api/events')).toMatchObject({ status: 401, json: { code: -1 } });
  expect(await api.send('/api/events', { token: 'nonsense' })).toMatchObject({ status: 401 });
  for (const method of ['POST', 'HEAD', 'DELETE'])
    expect(await api.send('/api/events', { token: ann.token, method })).toMatchObject({
      status: 405,
      headers: { allow: 'GET' },
    });
  await remove();
});

test("accepts a browser's cookie from this server's pages only", async () => {
  const { store, remove } = await openTempStore();
  const { api, admin } = await eventFixture(store);
  const cookie = `AccessToken=${admin.token}`;
  const own = await openStream(api.port, { headers: { cookie, origin: api.origin } });
  expect(own.status).toBe(200);
  const foreign = await openStream(api.port, { headers: { cookie, origin: 'http://evil.example' } });
  expect(foreign.status).toBe(403);
  // A request of an <img> or frame has no Origin; another port of this host is same-site.
  for (const site of ['cross-site', 'same-site'])
    expect((await openStream(api.port, { headers: { cookie, 'sec-fetch-site': site } })).status, site).toBe(403);
  for (const site of ['same-origin', 'none'])
    expect((await openStream(api.port, { headers: { cookie, 'sec-fetch-site': site } })).status, site).toBe(200);
  await remove();
});

test('a stream ends soon after its login or key is revoked; those of other logins continue', async () => {
  const { store, remove } = await openTempStore();
  const { world, api, admin } = await eventFixture(store, { eventBeatMs: 30 });
  const { access } = world.running.control;
  const { key } = await access.createApiKey(world.caller, { name: 'ci' }, null);
  const again = await access.login({ username: 'admin', password: 'correct horse' }, '127.0.0.1');
  const byLogin = await openStream(api.port, { headers: bearer(admin) });
  const byKey = await openStream(api.port, { headers: { 'x-api-key': key.fullKey } });
  const byOther = await openStream(api.port, { headers: bearer({ token: again.accessToken }) });
  await eventually(() => byKey.text().includes(': beat\n\n') && byLogin.text().includes(': beat\n\n'));
  await access.logout(await access.authenticate({ kind: 'token', token: admin.token }));
  expect(await byLogin.ended).toBe('end');
  expect(byLogin.text()).toContain(': the login or key has ended');
  await access.deleteApiKey(world.caller, { id: key.id }, null);
  expect(await byKey.ended).toBe('end');
  const beats = byOther.text().length;
  await eventually(() => byOther.text().length > beats);
  await remove();
});

describe('no event after the revocation of its credential reaches a stream, which ends:', () => {
  type End = (access: RunningControl['access'], who: Caller) => Promise<void>;
  const ends: [name: string, by: 'token' | 'key', end: End][] = [
    ['a logout', 'token', (access, who) => access.logout(who)],
    [
      'a change of the password',
      'token',
      (access, who) => access.changePassword(who, { oldPassword: 'correct horse', newPassword: 'incorrect horse' }),
    ],
    ['a deleted API key', 'key', (access, who) => access.deleteApiKey(who, { id: who.apiKeyId ?? '' }, null)],
  ];
  for (const [name, by, end] of ends)
    for (const where of ['here', 'in another process'] as const)
      test(`${name} ${where}`, async () => {
        const { store, remove } = await openTempStore();
        const { world, api, admin } = await eventFixture(store);
        const { access } = world.running;
        const { key } = await access.createApiKey(world.caller, { name: 'ci' }, null);
        const credential: Credential =
          by === 'token' ? { kind: 'token', token: admin.token } : { kind: 'apiKey', key: key.fullKey };
        const headers: Record<string, string> = by === 'token' ? bearer(admin) : { 'x-api-key': key.fullKey };
        const stream = await openStream(api.port, { headers });
        await admin.happens(1);
        await eventually(() => messagesIn(stream.text()).length === 1);
        const who = await access.authenticate(credential);
        await end(where === 'here' ? access : world.startAnother({}).access, who);
        await admin.happens(3);
        await eventually(() => stream.text().includes(': the login or key has ended'), stream.text);
        expect(await stream.ended).toBe('end');
        expect(messagesIn(stream.text())).toHaveLength(1);
        await remove();
      });
});

test('an account has eight streams; the ninth is refused with a reason, and closing one frees a slot', async () => {
  const { store, remove } = await openTempStore();
  const { api, admin, another } = await eventFixture(store);
  const ann = await another();
  const streams = await Promise.all(range(1, 8).map(() => openStream(api.port, { headers: bearer(ann) })));
  expect(streams.map(({ status }) => status)).toEqual(range(1, 8).map(() => 200));
  const ninth = await api.send('/api/events', { token: ann.token });
  expect(ninth).toMatchObject({
    status: 429,
    headers: {
      'x-error-code': 'too_many_requests',
      'retry-after': '10',
      'content-type': expect.stringContaining('application/problem+json'),
    },
    json: {
      message: expect.stringMatching(
        /open event streams\) is reached: the limit is 8, the account uses 8, .*close one/,
      ),
    },
  });
  expect((await openStream(api.port, { headers: bearer(admin) })).status).toBe(200);
  streams[3]?.close();
  await eventually(async () => (await openStream(api.port, { headers: bearer(ann) })).status === 200);
  await remove();
});

test('a reader that stalls for four beats is cut off', async () => {
  const { store, remove } = await openTempStore();
  const { world, api, another } = await eventFixture(store, { eventBeatMs: 60 });
  const ann = await another();
  await ann.happenTogether(3_000, { filler: 'x'.repeat(8_000) });
  const stream = await openStream(api.port, { path: '/api/events?after=0', headers: bearer(ann) });
  stream.pause();
  const { events } = world.running.control;
  await eventually(() => 'size' in events && events.size === 0);
  stream.resume();
  expect(await stream.ended).toBe('cut');
  expect(lastIdIn(stream.text())).toBeLessThan(3_000);
  await remove();
});

test('stopping control or closing the edge ends streams cleanly, and refuses new ones', async () => {
  const { store, remove } = await openTempStore();
  const { world, api, admin } = await eventFixture(store);
  const stream = await openStream(api.port, { headers: bearer(admin) });
  expect(stream.status).toBe(200);
  await world.running.stop();
  expect(await stream.ended).toBe('end');
  expect(await api.send('/api/events', { token: admin.token })).toMatchObject({
    status: 503,
    headers: { 'retry-after': '1' },
  });

  const endless = async function* (_caller: unknown, _after: unknown, signal: AbortSignal) {
    yield { gap: null, events: [], lastSeq: 0 };
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  };
  const edge = await startEdge(fakeControl({ events: { follow: endless } }));
  const open = await openStream(edge.port, { headers: bearer({ token: GOOD_TOKEN }) });
  await edge.stop();
  expect(await open.ended).toBe('end');
  await remove();
});

test('closing the edge waits for no connection without a request', async () => {
  const edge = await startEdge(fakeControl());
  const spare = connect(edge.port, '127.0.0.1');
  onTestFinished(() => void spare.destroy());
  await eventually(async () => (await edge.connections()) === 1);
  await edge.stop();
  await eventually(() => spare.closed);
  expect(spare.bytesRead).toBe(0);
});

onBothEngines('the feed', (open) => {
  test('looks for changes after a commit on SQLite, on a timer on PostgreSQL, never without readers', async () => {
    const store = await open();
    await store.write((tx) => insertOwners(tx, 'region', 'ann'));
    const due: (() => void)[] = [];
    const time = { ...realTime, after: (_ms: number, fn: () => void) => (due.push(fn), () => {}) };
    const ignore = (): void => {};
    const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
    const feed = makeEventFeed({ store, accountVersions: makeAccountVersions({ store, time, log }) });
    const caller = { accountId: 'ann', username: 'ann', email: '', roles: [], sessionId: null, scopes: null };
    const endings = range(1, 3).map(() => new AbortController());
    const seqs: number[] = [];
    const reading = endings.map(async ({ signal }) => {
      for await (const page of feed.follow(caller, null, signal)) seqs.push(...page.events.map(({ seq }) => seq));
    });
    // All three begin to wait in the time of one look.
    await eventually(() => feed.size === 3 && due.length === 1);
    await delay(50);
    due.shift()?.();
    if (open.kind === 'postgres') await eventually(() => due.length === 1);
    else {
      await delay(50);
      expect(due).toEqual([]);
    }
    await store.write((tx) => appendEvent(tx, { accountId: 'ann', atMs: 1, kind: 'test', subjectId: 'ann', data: {} }));
    await eventually(() => due.length === 1);
    // A reader that begins to wait after a look needs the next look.
    await eventually(() => {
      due.shift()?.();
      return seqs.length === 3;
    });
    for (const ending of endings) ending.abort();
    await Promise.all(reading);
    for (const look of due.splice(0)) look();
    await delay(50);
    expect({ size: feed.size, due }).toEqual({ size: 0, due: [] });
  });
});

test('sends each page of stored events in a turn of the event loop of its own', async () => {
  const PAGES = 50;
  let turn = 0;
  let isOver = false;
  const count = (): void => {
    turn += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const turns: number[] = [];
  const api = await startEdge(
    fakeControl({
      events: {
        async *follow() {
          yield { gap: null, events: [], lastSeq: 0 };
          for (let seq = 1; seq <= PAGES; seq += 1) {
            turns.push(turn);
            yield { gap: null, events: [{ seq, kind: 'a', subjectId: 'b', atMs: 1, dataText: '{}' }], lastSeq: seq };
          }
        },
      },
    }),
  );
  onTestFinished(async () => {
    isOver = true;
    await api.stop();
  });
  await api.send('/api/events?after=0', { token: GOOD_TOKEN });
  expect(new Set(turns).size).toBe(PAGES);
});

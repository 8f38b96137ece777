/** Refused events of webhooks, with a receiver on loopback and a clock of the test. */
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer, type OutgoingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { deleteExpired } from '../../fixtures/delete-expired.ts';
import { makeIdempotent } from '../../../src/control/kernel/idempotent.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { makeWebhookDelivery } from '../../../src/control/delivery/webhooks/deliver.ts';
import { makeSendWebhook } from '../../../src/control/delivery/webhooks/send-webhook.ts';
import { makeWebhooks } from '../../../src/control/delivery/webhooks/webhooks.ts';
import type { Store } from '../../../src/store/store.ts';
import { dueWebhooks } from '../../../src/store/tables/webhooks.ts';
import { appendEvent, eventsSince } from '../../../src/store/tables/events.ts';
import { callerOf } from '../../fixtures/caller.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { secretsKey, testSeal } from '../../fixtures/test-seal.ts';
import { accountRow } from '../store/rows.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const ignore = (): void => {};
const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };

const ann = callerOf('ann');

interface Received {
  id: string;
  kind: string;
  /** Subject and number. */
  name: string;
  atMs: number;
  status: number;
}
/** Status, or 'cut' for a connection that ends without an answer. */
type Answer = number | 'cut' | { status: number; retryAfter: string };

/** Signatures, `Retry-After` and the control plane have one clock. */
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: 1_800_000_000_000 });
});
afterEach(() => {
  vi.useRealTimers();
});
const pass = (ms: number): void => void vi.setSystemTime(Date.now() + ms);

async function startReceiver() {
  const received: Received[] = [];
  const secrets: string[] = [];
  const receiver: { answer: (name: string, kind: string) => Answer } = { answer: () => 200 };
  const verified = (body: string, headers: Record<string, string>): unknown => {
    for (const secret of secrets)
      try {
        return new Webhook(secret).verify(body, headers);
      } catch {}
    throw new Error('no signature of a known webhook');
  };
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
      const { type, data } = verified(body, headers) as { type: string; data: { subjectId: string; seq: number } };
      const name = `${data.subjectId}${data.seq}`;
      const answer = receiver.answer(name, type);
      const { status, retryAfter } =
        typeof answer === 'object' ? answer : { status: answer === 'cut' ? 0 : answer, retryAfter: '' };
      received.push({ id: headers['webhook-id'] ?? '', kind: type, name, atMs: Date.now(), status });
      if (status === 0) return void response.destroy();
      const more: OutgoingHttpHeaders = retryAfter === '' ? {} : { 'retry-after': retryAfter };
      response.writeHead(status, more).end('no thanks');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}/`;
  return { received, secrets, receiver, url };
}

async function setUp(store: Store) {
  for (const [id, roles] of [
    ['ann', '["user"]'],
    ['bob', '["user"]'],
    ['root', '["admin"]'],
  ] as const) {
    const row = accountRow({ id, username: id, email: '', roles });
    await store.write((tx) => tx.insertInto('account').values(row).execute());
  }
  const { received, secrets, receiver, url } = await startReceiver();
  const sendWebhook = makeSendWebhook({ time: realTime, anyAddress: true });
  const start = (stopping = new AbortController().signal) =>
    makeWebhookDelivery({ store, time: realTime, log, stopping, seal: testSeal, sendWebhook, random: () => 0.5 });
  const delivery = start();
  const webhooks = makeWebhooks({
    store,
    time: realTime,
    idempotent: makeIdempotent(secretsKey),
    seal: testSeal,
    randomBytes,
    randomUuid: randomUUID,
    anyWebhookAddress: true,
    webhookDelivery: delivery,
  });
  const create = async (kinds = ['instance'], { by = ann, allAccounts = false } = {}): Promise<string> => {
    const { webhook, secret } = await webhooks.create(by, { url, kinds, allAccounts }, null);
    secrets.push(secret);
    return webhook.id;
  };
  /** Appends an event for each subject. */
  const events = async (subjects: string, accountId = 'ann'): Promise<void> => {
    for (const subjectId of subjects)
      await store.write((tx) =>
        appendEvent(tx, { accountId, atMs: Date.now(), kind: 'instance.launched', subjectId, data: {} }),
      );
  };
  const run = async (by = delivery): Promise<void> => {
    await by.tick();
    await by.idle();
  };
  const runFor = async (ms: number, stepMs = SECOND_MS): Promise<void> => {
    for (const endMs = Date.now() + ms; Date.now() < endMs; pass(stepMs)) await run();
  };
  const notices = async (kind: string, accountId = 'ann') =>
    (await eventsSince(store.read, accountId, 0, 10_000)).filter((event) => event.kind === kind);
  const names = (): string[] => received.map(({ name }) => name);
  const accepted = (): string[] => received.filter(({ status }) => status === 200).map(({ name }) => name);
  return { received, receiver, start, delivery, webhooks, create, events, run, runFor, notices, names, accepted };
}

/** Numbers that answers get in turn, the last one for good. */
const inTurn = (...answers: [Answer, ...Answer[]]): (() => Answer) => {
  const left = [...answers];
  return () => (left.length > 1 ? left.shift() : left[0]) ?? 200;
};

/** Different subjects, one letter each. */
const letters = (count: number): string =>
  Array.from({ length: count }, (_, n) => String.fromCodePoint(0x4e00 + n)).join('');
const upTo = (last: number, count: number): number[] => Array.from({ length: count }, (_, n) => last - count + 1 + n);
const byNumber = (a: number, b: number): number => a - b;

onBothEngines('refused events of webhooks', { postgres: 'always' }, (open) => {
  test('hold back no other subject, and are followed by their own in order', async () => {
    const { receiver, create, events, run, runFor, names, accepted } = await setUp(await open());
    await create();
    await events('xyxzy');
    const forX = inTurn(400, 422, 200);
    receiver.answer = (name) => (name === 'x2' ? forX() : 200);
    await run();
    // The creation of the webhook is event 1. Nothing had to wait for the clock.
    expect(names()).toEqual(['x2', 'y3', 'z5', 'y6']);
    await events('xz');
    await run();
    expect(names().slice(4)).toEqual(['z8']);
    await runFor(MINUTE_MS);
    expect(accepted()).toEqual(['y3', 'z5', 'y6', 'z8', 'x2', 'x4', 'x7']);
    await runFor(MINUTE_MS);
    expect(names()).toHaveLength(9);
  });

  test('wait by account: the same subject of another goes on', async () => {
    const { receiver, create, events, run, accepted } = await setUp(await open());
    await create(['instance'], { by: callerOf('root', ['admin']), allAccounts: true });
    await events('x', 'ann');
    await events('x', 'bob');
    const first = inTurn(400, 200);
    receiver.answer = () => first();
    await run();
    expect(accepted()).toHaveLength(1);
  });

  test('are set aside after five refusals within four minutes, with an event to the owner', async () => {
    const { received, receiver, webhooks, create, events, runFor, notices, accepted } = await setUp(await open());
    const id = await create();
    await events('xxy');
    receiver.answer = (name) => (name === 'x2' ? 404 : 200);
    await runFor(4 * MINUTE_MS);
    const refused = received.filter(({ status }) => status === 404);
    expect(refused).toHaveLength(5);
    const waits = refused.slice(1).map(({ atMs }, n) => atMs - (refused[n]?.atMs ?? 0));
    expect(waits).toEqual(waits.toSorted((a, b) => a - b));
    expect(accepted()).toEqual(['y4', 'x3']);
    const deliveryId = refused[0]?.id ?? '';
    expect(new Set(refused.map((one) => one.id))).toEqual(new Set([deliveryId]));
    const [notice, ...more] = await notices('webhook.eventSetAside');
    expect(more).toEqual([]);
    expect(notice?.subjectId).toBe(id);
    const facts = { deliveryId, accountId: 'ann', seq: 2, kind: 'instance.launched', status: 404 };
    expect(JSON.parse(notice?.data ?? '')).toMatchObject(facts);
    const shown = await webhooks.deliveries(ann, id);
    expect(shown).toMatchObject({
      setAside: [{ id: deliveryId, seq: 2, subjectId: 'x', refusals: 5, status: 404, answer: 'no thanks' }],
      setAsideCount: 1,
    });
    expect(await webhooks.list(ann)).toMatchObject([{ enabled: true, attempts: 0, lastError: '' }]);
  });

  test('give one notice each, although the notices are refused too', async () => {
    const store = await open();
    const { received, receiver, webhooks, create, events, run, runFor, notices } = await setUp(store);
    await create([]);
    await events('xyz');
    receiver.answer = () => 404;
    await runFor(30 * MINUTE_MS, 10 * SECOND_MS);
    const before = received.length;
    await runFor(HOUR_MS, MINUTE_MS);
    expect(received).toHaveLength(before);
    expect(await dueWebhooks(store.read, Date.now(), 10)).toEqual([]);
    expect(await notices('webhook.eventSetAside')).toHaveLength(3);
    expect(await notices('webhook.failing')).toEqual([]);
    // A later failure is no long one.
    pass(4 * DAY_MS);
    await events('x');
    receiver.answer = () => 503;
    await run();
    const failed = { enabled: true, failingSinceMs: Date.now(), lastError: 'HTTP 503: no thanks' };
    expect(await webhooks.list(ann)).toMatchObject([failed]);
  });

  test('are sent again, one or all, with the same IDs; what is refused again stays', async () => {
    const { received, receiver, webhooks, create, events, run, runFor, notices } = await setUp(await open());
    const id = await create();
    await events('abc');
    receiver.answer = () => 400;
    await runFor(4 * MINUTE_MS);
    const { setAside } = await webhooks.deliveries(ann, id);
    const idOf = (seq: number): string => setAside.find((row) => row.seq === seq)?.id ?? '';
    expect(setAside).toHaveLength(3);
    received.length = 0;
    receiver.answer = (name) => (name === 'b3' ? 400 : 200);
    const idempotency = { key: 'k', route: 'resendWebhook', bodyHash: 'h' };
    const one = { id, deliveryId: idOf(2) };
    expect(await webhooks.resend(ann, one, idempotency)).toBe(1);
    expect((await webhooks.deliveries(ann, id)).setAside).toMatchObject([{}, {}, { id: idOf(2), dueAtMs: Date.now() }]);
    await run();
    expect(received).toMatchObject([{ name: 'a2', id: idOf(2) }]);
    expect(await webhooks.resend(ann, one, idempotency)).toBe(1);
    await run();
    expect(received).toHaveLength(1);
    await expect(webhooks.resend(ann, one, null)).rejects.toMatchObject({ code: 'not_found' });
    expect(await webhooks.resend(ann, { id }, null)).toBe(2);
    await runFor(MINUTE_MS);
    expect(received.slice(1).map(({ name }) => name)).toEqual(['b3', 'c4']);
    expect(await webhooks.deliveries(ann, id)).toMatchObject({ setAside: [{ seq: 3, refusals: 6 }], setAsideCount: 1 });
    expect(await notices('webhook.eventSetAside')).toHaveLength(3);
    receiver.answer = () => 200;
    await webhooks.redeliver(ann, { id, deliveryId: idOf(3) });
    expect(await webhooks.resend(ann, { id }, null)).toBe(0);
    await expect(webhooks.resend(callerOf('bob'), { id }, null)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('are sent again once the webhook is resumed, and wait while it is paused', async () => {
    const { receiver, webhooks, create, events, run, runFor, names, accepted } = await setUp(await open());
    const id = await create();
    await events('xxyy');
    receiver.answer = () => 400;
    await runFor(2 * MINUTE_MS);
    await webhooks.update(ann, { id, enabled: false }, null);
    receiver.answer = () => 200;
    const { length } = names();
    await runFor(10 * MINUTE_MS, MINUTE_MS);
    expect(names()).toHaveLength(length);
    await webhooks.update(ann, { id, enabled: true }, null);
    await run();
    expect(accepted()).toEqual(['x2', 'x3', 'y4', 'y5']);
  });

  test('leave with events that expire, and those behind them go on', async () => {
    const store = await open();
    const { receiver, webhooks, create, events, run, runFor, accepted, notices } = await setUp(store);
    const id = await create();
    await events('a');
    receiver.answer = () => 400;
    await runFor(4 * MINUTE_MS);
    expect((await webhooks.deliveries(ann, id)).setAsideCount).toBe(1);
    await events('x');
    pass(DAY_MS);
    await events('x');
    await run();
    await deleteExpired({ store, time: realTime, eventRetentionMs: DAY_MS / 2 });
    expect(await notices('instance.launched')).toHaveLength(1);
    expect((await webhooks.deliveries(ann, id)).setAsideCount).toBe(0);
    receiver.answer = () => 200;
    await runFor(MINUTE_MS);
    // The creation is event 1, that a was set aside event 3.
    expect(accepted()).toEqual(['x5']);
  });

  test('survive a kill at any request: none is lost, and only the one under way comes twice', async () => {
    for (let killedAt = 1; killedAt <= 8; killedAt += 1) {
      const { received, receiver, start, create, events, run, runFor } = await setUp(await open());
      await create();
      await events('xyxzxy');
      const dying = new AbortController();
      const refusals = new Map<string, number>();
      receiver.answer = (name) => {
        if (received.length + 1 === killedAt) dying.abort();
        const before = refusals.get(name) ?? 0;
        refusals.set(name, before + 1);
        return name === 'x2' && before < 2 ? 400 : 200;
      };
      const killed = start(dying.signal);
      for (let n = 0; n < 60 && !dying.signal.aborted; n += 1, pass(SECOND_MS)) await run(killed);
      expect(received).toHaveLength(killedAt);
      await runFor(2 * MINUTE_MS);
      const accepted = received.filter(({ status }) => status === 200).map(({ name }) => name);
      const again = received[killedAt - 1]?.name;
      const once = accepted.filter((name, n) => accepted.indexOf(name) === n);
      expect(once.toSorted(), `killed at ${killedAt}`).toEqual(['x2', 'x4', 'x6', 'y3', 'y7', 'z5']);
      expect(once.filter((name) => name.startsWith('x'))).toEqual(['x2', 'x4', 'x6']);
      expect(once.filter((name) => name.startsWith('y'))).toEqual(['y3', 'y7']);
      expect(accepted.filter((name) => name !== again)).toEqual(once.filter((name) => name !== again));
    }
  });
});

onBothEngines('failures and bounds of webhooks', (open) => {
  test.each([500, 503, 408, 425, 429, 302, 'cut'] as const)('%s is no refusal: all wait in order', async (answer) => {
    const { receiver, webhooks, create, events, runFor, names, accepted } = await setUp(await open());
    const id = await create();
    await events('xyx');
    const forX = inTurn(answer, answer, answer, answer, answer, answer, 200);
    receiver.answer = (name) => (name === 'x2' ? forX() : 200);
    await runFor(2 * MINUTE_MS);
    expect(names()).toEqual(['x2', 'x2', 'x2', 'x2', 'x2', 'x2']);
    await runFor(2 * MINUTE_MS);
    expect(accepted()).toEqual(['x2', 'y3', 'x4']);
    expect(await webhooks.deliveries(ann, id)).toMatchObject({ setAside: [], setAsideCount: 0 });
  });

  test('a failure amid the backlog holds all, and counts as no refusal', async () => {
    const { receiver, webhooks, create, events, runFor, accepted, names } = await setUp(await open());
    const id = await create();
    await events('x');
    const forX = inTurn(400, 400, 400, 503, 503, 400, 200);
    receiver.answer = (name) => (name === 'x2' ? forX() : 200);
    await runFor(MINUTE_MS, 500);
    await events('y');
    await runFor(6 * MINUTE_MS);
    expect(accepted().toSorted()).toEqual(['x2', 'y3']);
    expect(names().filter((name) => name === 'x2')).toHaveLength(7);
    expect((await webhooks.deliveries(ann, id)).setAsideCount).toBe(0);
  });

  test.each([
    ['seconds', () => '600', 600],
    ['a date', () => new Date(Date.now() + 600_000).toUTCString(), 600],
    ['more than an hour', () => '86400', 3_600],
    ['a date of tomorrow', () => new Date(Date.now() + DAY_MS).toUTCString(), 3_600],
    ['no time at all', () => '0', 2.5],
    ['a date that is past', () => new Date(Date.now() - DAY_MS).toUTCString(), 2.5],
    ['no such value', () => '10 minutes', 3.75],
  ])('a Retry-After of %s is honored, within an hour', async (_, retryAfter, seconds) => {
    const { receiver, create, events, run, names } = await setUp(await open());
    await create();
    await events('x');
    for (const status of [503, 429]) {
      receiver.answer = () => ({ status, retryAfter: retryAfter() });
      await run();
      const { length } = names();
      receiver.answer = () => 200;
      pass(seconds * SECOND_MS - 1);
      await run();
      expect(names()).toHaveLength(length);
      pass(1);
      await run();
      expect(names()).toHaveLength(length + 1);
      await events('x');
    }
  });

  test('the fifth failure in a row gives one event until the next success', async () => {
    const { receiver, webhooks, create, events, runFor, notices, accepted } = await setUp(await open());
    const id = await create();
    await events('x');
    // The event about the failure is number 3.
    for (const [round, name] of ['x2', 'x4'].entries()) {
      const answers = inTurn(503, 503, 503, 503, 503, 503, 200);
      receiver.answer = () => answers();
      await runFor(50 * SECOND_MS);
      expect(await notices('webhook.failing')).toHaveLength(round);
      await runFor(4 * MINUTE_MS);
      expect(accepted().at(-1)).toBe(name);
      const found = await notices('webhook.failing');
      expect(found).toHaveLength(round + 1);
      expect(found.at(-1)).toMatchObject({ subjectId: id });
      expect(JSON.parse(found.at(-1)?.data ?? '')).toMatchObject({ status: 503 });
      await events('x');
    }
    expect(await webhooks.list(ann)).toMatchObject([{ enabled: true }]);
  });

  test('are bounded: 200 wait, 500 are set aside, and others pass them', async () => {
    const store = await open();
    const { receiver, webhooks, create, events, runFor, names, accepted } = await setUp(store);
    const id = await create();
    await events(letters(300));
    await events('z');
    await events(letters(420));
    receiver.answer = (name) => (name.startsWith('z') ? 200 : 400);
    await runFor(20, 1);
    expect(names()).toHaveLength(621);
    expect(accepted()).toEqual(['z302']);
    const rows = await store.read.selectFrom('webhookBacklog').selectAll().execute();
    const seqs = (isAside: boolean): number[] =>
      rows.filter((row) => (row.setAsideAtMs !== null) === isAside).map(({ seq }) => seq);
    // The second hundred is of the subjects of the first.
    expect(seqs(false).toSorted(byNumber)).toEqual([...upTo(101, 100), ...upTo(402, 100)]);
    // Numbers 102 to 121 have left.
    expect(seqs(true).toSorted(byNumber)).toEqual([...upTo(301, 180), ...upTo(722, 320)]);
    const shown = await webhooks.deliveries(ann, id);
    expect(shown).toMatchObject({ setAsideCount: 500 });
    expect(shown.setAside.map(({ seq }) => seq)).toEqual(upTo(722, 100).toReversed());
  });

  test('switch a webhook off after 500 without a success, before one of them is lost', async () => {
    const { receiver, webhooks, create, events, runFor, accepted, names, notices } = await setUp(await open());
    const id = await create();
    await events(letters(520));
    receiver.answer = () => 401;
    await runFor(MINUTE_MS);
    expect(names()).toHaveLength(500);
    expect(await webhooks.list(ann)).toMatchObject([{ enabled: false, attempts: 500 }]);
    expect(await notices('webhook.disabled')).toHaveLength(1);
    receiver.answer = () => 200;
    await webhooks.update(ann, { id, enabled: true }, null);
    await webhooks.resend(ann, { id }, null);
    await runFor(3 * MINUTE_MS);
    const seqs = accepted().map((name) => Number(name.slice(1)));
    expect(seqs.toSorted(byNumber)).toEqual(upTo(521, 520));
  });

  test('hold back others for no longer than one wait, also 250 refused events of one subject', async () => {
    const store = await open();
    const { receiver, create, events, runFor, accepted } = await setUp(store);
    await create();
    await events('x'.repeat(250));
    await events('y');
    receiver.answer = (name) => (name.startsWith('x') ? 400 : 200);
    await runFor(10 * SECOND_MS);
    expect(await store.read.selectFrom('webhookBacklog').select('seq').execute()).toHaveLength(200);
    await runFor(5 * SECOND_MS);
    expect(accepted()).toEqual(['y252']);
  });
});

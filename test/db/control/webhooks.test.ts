/** Webhooks over the events of real accounts, with receivers of the test and virtual time. */
import { randomBytes, randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { makeIdempotent } from '../../../src/control/kernel/idempotent.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { Caller } from '../../../src/control/kernel/caller.ts';
import { makeWebhookDelivery } from '../../../src/control/delivery/webhooks/deliver.ts';
import type { SendWebhook, WebhookResult } from '../../../src/control/delivery/webhooks/send-webhook.ts';
import { makeWebhooks } from '../../../src/control/delivery/webhooks/webhooks.ts';
import { dueWebhooks } from '../../../src/store/tables/webhooks.ts';
import { appendEvent, eventsSince } from '../../../src/store/tables/events.ts';
import type { Store } from '../../../src/store/store.ts';
import { callerOf } from '../../fixtures/caller.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { secretsKey, testSeal } from '../../fixtures/test-seal.ts';
import { accountRow } from '../store/rows.ts';

const HOUR_MS = 3_600_000;
const OK: WebhookResult = { delivered: true, status: 200, answer: '', tookMs: 1 };
const FAILED: WebhookResult = { ...OK, delivered: false, status: 503, answer: 'no' };
const ignore = (): void => {};
const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
const url = 'https://hooks.example.net/a';

const ann = callerOf('ann');
const root = callerOf('root', ['admin']);

interface Sent {
  url: string;
  id: string;
  type: string;
  data: { accountId: string; seq: number };
}

async function setUp(store: Store) {
  for (const [id, roles] of [
    ['ann', '["user"]'],
    ['bob', '["user"]'],
    ['root', '["admin"]'],
  ] as const)
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(accountRow({ id, username: id, email: '', roles }))
        .execute(),
    );
  const clock = { ms: 1_000_000_000 };
  const sent: Sent[] = [];
  const receiver: { answer: (message: Sent) => WebhookResult | Promise<WebhookResult> } = { answer: () => OK };
  const sendWebhook: SendWebhook = async (message) => {
    const body: Omit<Sent, 'url' | 'id'> = JSON.parse(message.body);
    const one = { ...body, url: message.url, id: message.headers['webhook-id'] ?? '' };
    sent.push(one);
    return receiver.answer(one);
  };
  const start = (stopping = new AbortController().signal) => {
    const time = { ...realTime, now: () => clock.ms, elapsed: () => clock.ms };
    return makeWebhookDelivery({ store, time, log, stopping, seal: testSeal, sendWebhook, random: () => 0.5 });
  };
  const delivery = start();
  const webhooks = makeWebhooks({
    store,
    time: { now: () => clock.ms },
    idempotent: makeIdempotent(secretsKey),
    seal: testSeal,
    randomBytes,
    randomUuid: randomUUID,
    anyWebhookAddress: false,
    webhookDelivery: delivery,
  });
  const event = (accountId: string, kind = 'instance.launched') =>
    store.write((tx) => appendEvent(tx, { accountId, atMs: clock.ms, kind, subjectId: 'x', data: { a: 1 } }));
  const run = async (by = delivery): Promise<void> => {
    await by.tick();
    await by.idle();
  };
  const create = (caller: Caller, more: { url?: string; kinds?: string[]; allAccounts?: boolean } = {}) =>
    webhooks.create(caller, { url, kinds: [], allAccounts: false, ...more }, null);
  return { clock, sent, receiver, start, delivery, webhooks, event, run, create };
}

const expectRefused = (refused: Promise<unknown>, code: string): Promise<void> =>
  expect(refused).rejects.toMatchObject({ code });

const seqs = (sent: readonly Sent[]): number[] => sent.map(({ data }) => data.seq);

const refusedUrls = [
  'http://hooks.example.net/',
  'https://user:password@hooks.example.net/',
  'https://localhost/',
  'https://localhost./',
  'https://127.1/',
  'https://0x7f000001/',
  'https://[::1]/',
  'https://[::ffff:10.0.0.1]/',
  'https://10.1.2.3/',
  'https://100.64.0.1/',
  'https://169.254.169.254/latest/meta-data',
  'https://192.168.1.1:8443/',
  'https://[fd00::1]/',
  'https://[fe80::1]/',
  'https://[64:ff9b::7f00:1]/',
  'https://[2002:7f00:1::]/',
  'ftp://hooks.example.net/',
  'no url',
];

onBothEngines('webhooks', (open) => {
  test('deliver the events of their account since their creation, in order, by kind', async () => {
    const store = await open();
    const { sent, event, run, create } = await setUp(store);
    await event('ann');
    const all = await create(ann);
    await create(ann, { kinds: ['volume', 'instance.stopped'], url: `${url}2` });
    for (const kind of ['instance.launched', 'volume.created', 'instance.stopped', 'volumes.other'])
      await event('ann', kind);
    await event('bob');
    await run();
    const of = (at: string) => sent.filter((one) => one.url === at).map(({ type }) => type);
    expect(of(url)).toEqual([
      'webhook.created',
      'instance.launched',
      'volume.created',
      'instance.stopped',
      'volumes.other',
    ]);
    expect(of(`${url}2`)).toEqual(['volume.created', 'instance.stopped']);
    expect(sent.every(({ data }) => data.accountId === 'ann')).toBe(true);
    expect(new Set(sent.map(({ id }) => id)).size).toBe(sent.length);
    await run();
    expect(sent).toHaveLength(7);
    expect(all.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(JSON.stringify(await store.read.selectFrom('webhook').selectAll().execute())).not.toContain(all.secret);
  });

  test('lose nothing and keep the order over a crash before the answer is recorded', async () => {
    const store = await open();
    const { sent, receiver, start, event, run, create } = await setUp(store);
    await create(ann, { kinds: ['instance'] });
    for (let n = 0; n < 5; n += 1) await event('ann');
    const dying = new AbortController();
    receiver.answer = () => {
      if (sent.length === 3) dying.abort();
      return OK;
    };
    await run(start(dying.signal));
    expect(sent).toHaveLength(3);
    await run(start());
    // The third is sent again under its ID: the crash came before its record.
    expect(seqs(sent)).toEqual([2, 3, 4, 4, 5, 6]);
    expect(sent[3]?.id).toBe(sent[2]?.id);
  });

  test('wait longer after each failure, are switched off, and go on where they stopped', async () => {
    const store = await open();
    const { clock, sent, receiver, webhooks, event, run, create } = await setUp(store);
    const { webhook } = await create(ann, { kinds: ['instance'] });
    for (let n = 0; n < 3; n += 1) await event('ann');
    receiver.answer = ({ data }) => (data.seq === 3 ? FAILED : OK);
    const startedMs = clock.ms;
    const attempts: number[] = [];
    while (clock.ms < startedMs + 80 * HOUR_MS) {
      const before = sent.length;
      await run();
      if (sent.length > before) attempts.push(clock.ms);
      clock.ms += attempts.length < 8 ? 1_000 : HOUR_MS;
    }
    const waits = attempts.slice(1, 7).map((atMs, n) => Math.round((atMs - (attempts[n] ?? 0)) / 1_000));
    expect(waits).toEqual([4, 8, 15, 30, 60, 120]);
    expect(seqs(sent.slice(0, 2))).toEqual([2, 3]);
    expect(new Set(seqs(sent.slice(1)))).toEqual(new Set([3]));
    const [off] = await webhooks.list(ann);
    expect(off).toMatchObject({ enabled: false, lastError: 'HTTP 503: no', failingSinceMs: startedMs });
    expect((attempts.at(-1) ?? 0) - startedMs).toBeGreaterThanOrEqual(72 * HOUR_MS);
    const events = await eventsSince(store.read, 'ann', 0, 100);
    expect(events.at(-1)).toMatchObject({ kind: 'webhook.disabled', subjectId: webhook.id });
    receiver.answer = () => OK;
    sent.length = 0;
    await run();
    expect(sent).toEqual([]);
    await webhooks.update(ann, { id: webhook.id, enabled: true }, null);
    await run();
    expect(seqs(sent)).toEqual([3, 4]);
  });

  test('are switched off at once by a receiver that is gone', async () => {
    const store = await open();
    const { receiver, webhooks, event, run, create } = await setUp(store);
    await create(ann);
    await event('ann');
    receiver.answer = () => ({ ...FAILED, status: 410 });
    await run();
    expect(await webhooks.list(ann)).toMatchObject([{ enabled: false }]);
  });

  test('deliver the events of all accounts to an administrator, until the role is gone', async () => {
    const store = await open();
    const { clock, sent, webhooks, event, run, create } = await setUp(store);
    await expectRefused(create(ann, { allAccounts: true }), 'forbidden');
    await expectRefused(
      webhooks.create({ ...root, scopes: ['account'] }, { url, kinds: [], allAccounts: true }, null),
      'forbidden',
    );
    await event('bob');
    await create(root, { allAccounts: true, kinds: ['instance'] });
    await event('ann');
    await event('bob');
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(accountRow({ id: 'new', username: 'new', email: '' }))
        .execute(),
    );
    await event('new');
    await run();
    expect(sent.map(({ data }) => `${data.accountId} ${data.seq}`)).toEqual(['ann 1', 'bob 2', 'new 1']);
    await store.write((tx) => tx.updateTable('account').set({ roles: '["user"]' }).where('id', '=', 'root').execute());
    await event('ann');
    clock.ms += HOUR_MS;
    await run();
    expect(sent).toHaveLength(3);
  });

  test('deliver the events of all accounts in turns of 15 seconds for each', async () => {
    const { clock, sent, receiver, event, run, create } = await setUp(await open());
    await create(root, { allAccounts: true, kinds: ['instance'] });
    for (const id of ['ann', 'ann', 'bob', 'bob']) await event(id);
    receiver.answer = () => {
      clock.ms += 15_000;
      return OK;
    };
    for (let turn = 0; turn < 4; turn += 1) await run();
    expect(sent.map(({ data }) => `${data.accountId} ${data.seq}`)).toEqual(['ann 1', 'bob 1', 'ann 2', 'bob 2']);
  });

  test('serve an account while slow receivers of others take all turns', async () => {
    const store = await open();
    const { clock, sent, receiver, delivery, event, run, create } = await setUp(store);
    const slow = Array.from({ length: 64 }, (_, n) => `slow-${n}`);
    for (const id of slow) {
      const row = accountRow({ id, username: id, email: '' });
      await store.write((tx) => tx.insertInto('account').values(row).execute());
      for (const path of ['a', 'b'])
        await create(callerOf(id), { url: `https://slow.example.net/${path}`, kinds: ['instance'] });
      for (let n = 0; n < 3; n += 1) await event(id);
    }
    const { promise, resolve } = Promise.withResolvers<WebhookResult>();
    receiver.answer = (message) => (message.url.includes('slow') ? promise : OK);
    await delivery.tick();
    await expect.poll(() => sent).toHaveLength(128);
    await create(callerOf('bob'), { kinds: ['instance'] });
    await event('bob');
    await delivery.tick();
    clock.ms += 15_000;
    resolve(OK);
    await delivery.idle();
    expect(sent).toHaveLength(128);
    const [next] = await dueWebhooks(store.read, clock.ms, 1);
    expect(next?.ownerId).toBe('bob');
    await run();
    expect(sent.filter((one) => one.url === url)).toHaveLength(1);
    expect(
      sent
        .filter(({ data }) => data.accountId === 'slow-0')
        .map(({ data }) => data.seq)
        .toSorted((a, b) => a - b),
    ).toEqual([3, 3, 4, 4, 5, 5]);
  });

  test('serve an account while the receivers of another hang', async () => {
    const store = await open();
    const { sent, receiver, delivery, event, create } = await setUp(store);
    for (let n = 0; n < 10; n += 1) await create(ann, { url: `https://hang.example.net/${n}` });
    await expectRefused(create(ann), 'over_quota');
    await create(callerOf('bob'), { kinds: ['instance'] });
    await event('bob');
    const { promise, resolve } = Promise.withResolvers<WebhookResult>();
    receiver.answer = (message) => (message.url.includes('hang') ? promise : OK);
    await delivery.tick();
    await expect.poll(() => sent.filter((one) => one.url === url)).toHaveLength(1);
    const hanging = () => sent.filter((one) => one.url.includes('hang'));
    await expect.poll(hanging).toHaveLength(2);
    await delivery.tick();
    expect(hanging()).toHaveLength(2);
    resolve(FAILED);
    await delivery.idle();
  });

  test('send an event again by hand, under its ID, also while switched off', async () => {
    const store = await open();
    const { sent, receiver, webhooks, event, run, create } = await setUp(store);
    const { webhook } = await create(ann);
    await event('ann');
    receiver.answer = () => FAILED;
    await run();
    await webhooks.update(ann, { id: webhook.id, enabled: false }, null);
    const { deliveries } = await webhooks.deliveries(ann, webhook.id);
    const [failed] = deliveries;
    expect(failed).toMatchObject({ delivered: 0, attempts: 1, status: 503, answer: 'no', kind: 'instance.launched' });
    receiver.answer = () => OK;
    const again = await webhooks.redeliver(ann, { id: webhook.id, deliveryId: failed?.id ?? '' });
    expect(again).toMatchObject({ delivered: 1, attempts: 2 });
    expect(sent.map(({ id }) => id)).toEqual([failed?.id, failed?.id]);
    await expectRefused(webhooks.redeliver(ann, { id: webhook.id, deliveryId: 'msg_x' }), 'not_found');
    await expectRefused(webhooks.deliveries(callerOf('bob'), webhook.id), 'not_found');
    receiver.answer = async () => {
      await webhooks.delete(ann, { id: webhook.id }, null);
      return OK;
    };
    await expectRefused(webhooks.redeliver(ann, { id: webhook.id, deliveryId: failed?.id ?? '' }), 'not_found');
    await expectRefused(webhooks.test(ann, webhook.id), 'not_found');
  });

  test('refuse other protocols, logins and addresses that are not public, and take public ones', async () => {
    const store = await open();
    const { create, webhooks } = await setUp(store);
    for (const refused of refusedUrls) await expectRefused(create(ann, { url: refused }), 'field_value');
    const urls = ['https://8.8.8.8/', 'https://93.184.215.14:8443/a', 'https://[2001:4860:4860::8888]/'];
    for (const given of urls) await create(ann, { url: given });
    expect((await webhooks.list(ann)).map((one) => one.url).toSorted()).toEqual(urls.toSorted());
  });
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, launchRequest, type Account, type TestApi } from './harness.ts';

const HOUR_MS = 3_600_000;

let api: TestApi;
let alice: Account;
let instanceId: string;

beforeAll(async () => {
  api = await startApi();
  alice = await api.newAccount();
  ({ instanceId } = await alice.client.launch(launchRequest()));
});
afterAll(() => api.stop());

const ends = (body: object) => api.post('/instance/ends', { instanceId, ...body }, { token: alice.token });
const nothing = {
  stopAtUnixMs: null,
  maxRunMinutes: null,
  idleStop: null,
  keepAliveUntilUnixMs: null,
  endsAtUnixMs: null,
};

test('sets given members, keeps omitted ones, removes null ones, and returns the stop policy', async () => {
  const { client } = alice;
  expect(await client.ends({ instanceId })).toEqual({ instanceId, ...nothing });
  const stopAtUnixMs = Date.now() + HOUR_MS;
  expect(await client.ends({ instanceId, stopAtUnixMs })).toEqual({
    instanceId,
    ...nothing,
    stopAtUnixMs,
    endsAtUnixMs: stopAtUnixMs,
  });
  const [listed] = (await client.listInstances({ pager: { currentPage: 1, pageSize: 10 } })).instances;
  expect(listed?.instanceRuntimeInfo.scheduledStopTimestamp).toBe(stopAtUnixMs);
  const idleStop = { afterMinutes: 30, ignore: ['ssh' as const], cpuPercent: 20, gpuPercent: 5 };
  const { gpuPercent: _, ...asked } = idleStop;
  expect(await client.ends({ instanceId, maxRunMinutes: 90, idleStop: asked })).toMatchObject({
    stopAtUnixMs,
    maxRunMinutes: 90,
    idleStop,
  });
  expect(await client.ends({ instanceId, stopAtUnixMs: null })).toMatchObject({
    stopAtUnixMs: null,
    maxRunMinutes: 90,
    idleStop,
  });
  expect(await client.ends({ instanceId, maxRunMinutes: null, idleStop: null })).toEqual({ instanceId, ...nothing });
});

test('refuses invalid times and rules with field, value and allowed values; nothing changes', async () => {
  const pastMs = Date.now() - 1_000;
  const bad: [body: object, words: RegExp][] = [
    [{ stopAtUnixMs: pastMs }, /^field "stopAtUnixMs" is \d+: it must be after \d+, the time now/],
    [{ stopAtUnixMs: Date.now() + 400 * 24 * HOUR_MS }, /^field "stopAtUnixMs" is \d+: it must be within a year/],
    [{ stopAtUnixMs: 1.5 }, /^field "stopAtUnixMs" is 1\.5: it must be a whole number/],
    [{ stopAtUnixMs: -1 }, /^field "stopAtUnixMs" is -1: it must be a whole number from 0/],
    [{ stopAtUnixMs: 1e308 }, /^field "stopAtUnixMs" is 1e\+308: it must be a whole number/],
    [{ stopAtUnixMs: 'tomorrow' }, /^type mismatch for field "stopAtUnixMs"$/],
    [{ maxRunMinutes: 0 }, /^field "maxRunMinutes" is 0: it must be a whole number from 1 to 527040$/],
    [{ maxRunMinutes: 527_041 }, /from 1 to 527040$/],
    [{ maxRunMinutes: 0.5 }, /^field "maxRunMinutes" is 0\.5: it must be a whole number/],
    [{ idleStop: {} }, /^field "idleStop\.afterMinutes" is not set$/],
    [{ idleStop: { afterMinutes: 0 } }, /^field "idleStop\.afterMinutes" is 0: it must be a whole number from 1/],
    [
      { idleStop: { afterMinutes: 10, cpuPercent: 0 } },
      /^field "idleStop\.cpuPercent" is 0: it must be a whole number from 1 to 100$/,
    ],
    [{ idleStop: { afterMinutes: 10, ignore: ['mouse'] } }, /must be one of "kernel", "terminal"/],
    [
      { idleStop: { afterMinutes: 10, ignore: ['kernel', 'terminal', 'ssh', 'http', 'gpu', 'cpu'] } },
      /^field "idleStop\.ignore" has 6 items: it must have at most 5 items$/,
    ],
    [{ idleStop: { afterMinutes: 10, ignore: ['cpu', 'cpu'] } }, /must name each rule once/],
  ];
  for (const [body, words] of bad) {
    const reply = await ends(body);
    expect(
      { status: reply.status, code: reply.headers['x-error-code']?.toString().slice(0, 5) },
      JSON.stringify(body),
    ).toEqual({
      status: 400,
      code: 'field',
    });
    expect(reply.json).toMatchObject({ message: expect.stringMatching(words) });
  }
  const notJson = await api.post('/instance/ends', `{"instanceId":"${instanceId}","maxRunMinutes":NaN}`, {
    token: alice.token,
  });
  expect(notJson.status).toBe(400);
  expect(await alice.client.ends({ instanceId })).toEqual({ instanceId, ...nothing });
});

test('null removes a field also in a body that is parsed a second time', async () => {
  await alice.client.ends({ instanceId, maxRunMinutes: 60 });
  // Null counts as left out where the schema has no null: the body is parsed a second time without
  // it.
  const reply = await ends({ maxRunMinutes: null, idleStop: { afterMinutes: 10, cpuPercent: null } });
  expect(reply.json).toMatchObject({ maxRunMinutes: null, idleStop: { afterMinutes: 10, cpuPercent: 10 } });
  await alice.client.ends({ instanceId, idleStop: null });
});

test('a keep-alive call extends by minutes, by an API key too, and 0 cancels it', async () => {
  const { key } = await alice.client.createApiKey({ name: 'inside' });
  const keep = (body: object) =>
    api.post('/instance/keepalive', { instanceId, ...body }, { headers: { 'x-api-key': key.fullKey } });
  const beforeMs = Date.now();
  const response = await keep({ minutes: 30 });
  expect(response.status).toBe(200);
  const { keepAliveUntilUnixMs } = response.json as { keepAliveUntilUnixMs: number };
  expect(keepAliveUntilUnixMs).toBeGreaterThanOrEqual(beforeMs + HOUR_MS / 2);
  expect(await alice.client.ends({ instanceId })).toMatchObject({ keepAliveUntilUnixMs });
  expect((await keep({})).json).toMatchObject({ keepAliveUntilUnixMs: expect.any(Number) });
  expect((await keep({ minutes: 0 })).json).toEqual({ instanceId, keepAliveUntilUnixMs: null });
  for (const minutes of [-1, 10_081, 1.5]) {
    expect((await keep({ minutes })).json).toMatchObject({
      message: `field "minutes" is ${minutes}: it must be a whole number from 0 to 10080`,
    });
  }
});

test('activity is off without an idle rule', async () => {
  expect(await alice.client.activity({ instanceId })).toEqual({
    instanceId,
    state: 'off',
    because: 'no idle stop is set; /instance/ends sets one',
    idleSinceUnixMs: null,
    willStopAtUnixMs: null,
    unless: '',
    lookedAtUnixMs: null,
    signals: [],
  });
});

test("answers for another account's instance as for an unknown one", async () => {
  const mallory = await api.newAccount();
  for (const route of ['/instance/ends', '/instance/keepalive', '/instance/activity']) {
    for (const id of [instanceId, 'notebook-00000000-0000-4000-8000-000000000000']) {
      const reply = await api.post(route, { instanceId: id }, { token: mallory.token });
      expect(reply.status).toBe(404);
      expect(reply.json).toMatchObject({ message: 'ent: instance not found' });
    }
  }
});

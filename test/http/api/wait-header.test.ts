/**
 * The header with how long a launch or start waits for capacity: valid values, and passing it on.
 */
import { afterEach, expect, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { fakeControl, GOOD_TOKEN } from './fake-control.ts';
import { startEdge, launchRequest, type BareApi } from './harness.ts';

const started: BareApi[] = [];
afterEach(async () => {
  for (const api of started.splice(0)) await api.stop();
});

/** An edge that records the wait of launches and starts. */
async function waiting(): Promise<{ api: BareApi; waits: (number | null | undefined)[] }> {
  const waits: (number | null | undefined)[] = [];
  const answer = { instanceId: 'notebook-1', operationId: 'notebook-1.1' };
  const api = await startEdge(
    fakeControl({
      instances: {
        launch: async (_caller, _input, _idempotency, waitMs) => (waits.push(waitMs), answer),
        start: async (_caller, _body, _idempotency, waitMs) => (waits.push(waitMs), answer),
      },
    }),
  );
  started.push(api);
  return { api, waits };
}

const send = (api: BareApi, path: string, body: object, value?: string) =>
  api.send(path, {
    method: 'POST',
    token: GOOD_TOKEN,
    body: JSON.stringify(body),
    headers: {
      'content-type': 'application/json',
      ...(value === undefined ? {} : { 'x-berth-wait-for-capacity': value }),
    },
  });

test("launch and start pass the header's wait, a day without a value, and none without the header", async () => {
  const { api, waits } = await waiting();
  for (const value of ['true', '1', '604800', undefined]) {
    expect((await send(api, '/api/instance/create', launchRequest(), value)).status).toBe(200);
    expect((await send(api, '/api/instance/start', { instanceId: 'notebook-1' }, value)).status).toBe(200);
  }
  const each = [86_400_000, 1_000, 604_800_000, null];
  expect(waits).toEqual(each.flatMap((waitMs) => [waitMs, waitMs]));
});

test('refuses any other value with a 400 that names the header and valid values, without a call to control', async () => {
  const { api, waits } = await waiting();
  const bad = [
    '',
    'false',
    'TRUE',
    'yes',
    '0',
    '-1',
    '1.5',
    '1e3',
    '0x10',
    '01',
    '604801',
    '99999999999999999999',
    '1, 2',
    'Infinity',
  ];
  for (const value of bad) {
    const reply = await send(api, '/api/instance/create', launchRequest(), value);
    expect(reply.status, value).toBe(400);
    expect(reply.json).toEqual({
      message:
        'the header "X-Berth-Wait-For-Capacity" must be "true" (waits for at most 24 hours) or whole seconds from 1 to 604800',
    });
  }
  expect(waits).toEqual([]);
});

test('documents the header on exactly the routes that take it', async () => {
  const { api } = await waiting();
  const { json, text } = await api.send('/api/openapi.json');
  const $ref = '#/components/parameters/WaitForCapacity';
  const taking = { post: { parameters: expect.arrayContaining([{ $ref }]) } };
  expect(json).toMatchObject({
    paths: { '/instance/create': taking, '/instance/start': taking, '/admin/instance/start': taking },
    components: { parameters: { WaitForCapacity: { name: 'X-Berth-Wait-For-Capacity', in: 'header' } } },
  });
  expect(text.split($ref)).toHaveLength(4);
});

test('the client sends the header on exactly those calls', async () => {
  const { api, waits } = await waiting();
  const client = makeClient({ baseUrl: api.baseUrl, credential: { kind: 'token', token: GOOD_TOKEN } });
  await client.launch(launchRequest(), { waitForCapacity: true });
  await client.start({ instanceId: 'notebook-1' }, { waitForCapacity: 90 });
  await client.launch(launchRequest());
  expect(waits).toEqual([86_400_000, 90_000, null]);
});

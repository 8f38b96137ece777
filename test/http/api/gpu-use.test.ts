/** GPU time of an account by the API, measured on the simulated engine. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HOUR_MS, MINUTE_MS } from '../../../src/domain/kernel/durations.ts';
import { makeGpuSampling } from '../../fixtures/gpu-sampling.ts';
import { ids } from './control-fixture.ts';
import { startApi, type TestApi } from './harness.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const START_MS = Date.UTC(2026, 10, 2);
const range = { fromUnixMs: START_MS, untilUnixMs: START_MS + 2 * HOUR_MS, by: 'hour' } as const;

test('answers the hours held and busy to the account alone, and null for what was not measured', async () => {
  const [alice, bob] = [await api.newAccount(), await api.newAccount()];
  const { userId: ownerId } = await alice.client.userInfo();
  const { launch, begin, pass } = await makeGpuSampling(api.wired.store, { regionId: ids.region, startMs: START_MS });
  await launch({ ownerId, gpus: 2, busyPercent: 25 });
  await begin();
  await pass(7 * MINUTE_MS);
  const [first, second] = [
    { fromUnixMs: START_MS, untilUnixMs: START_MS + HOUR_MS },
    { fromUnixMs: START_MS + HOUR_MS, untilUnixMs: START_MS + 2 * HOUR_MS },
  ];
  const unused = { heldHours: 0, measuredHours: 0, busyHours: null, busyShare: null };
  expect(await alice.client.gpuUse(range)).toEqual({
    spans: [
      { ...first, heldHours: 0.2, measuredHours: 0.2, busyHours: 0.05, busyShare: 0.25 },
      { ...second, ...unused },
    ],
  });
  expect(await bob.client.gpuUse(range)).toEqual({
    spans: [
      { ...first, ...unused },
      { ...second, ...unused },
    ],
  });
});

test('refuses a range without length, and a key without the scope of billing', async () => {
  const { client, token } = await api.newAccount();
  expect(await api.post('/billing/gpu/use', { ...range, untilUnixMs: START_MS }, { token })).toMatchObject({
    status: 400,
    json: { message: expect.stringMatching(/"untilUnixMs" is \d+, not after "fromUnixMs"/) },
  });
  const { key } = await client.createApiKey({ name: 'volumes', scopes: ['volumes'] });
  expect(await api.post('/billing/gpu/use', range, { headers: { 'x-api-key': key.fullKey } })).toMatchObject({
    status: 403,
  });
});

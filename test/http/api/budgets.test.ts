/** Budgets and the forecast over HTTP. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ADMIN_TOKEN, fakeControl } from './fake-control.ts';
import { startEdge, type BareApi } from './harness.ts';

const given: unknown[] = [];
const budget = { scope: null, soft: 5, hard: null, timeZone: 'UTC', setBy: 'owner' } as const;
const set = async (_caller: unknown, body: { name: string }, key: unknown) => {
  given.push(body, key);
  return { budget: { ...budget, name: body.name } };
};

let api: BareApi;
beforeAll(async () => {
  api = await startEdge(
    fakeControl({
      budgets: {
        set,
        setFor: set,
        list: async () => ({
          budgets: [
            { ...budget, name: 'b', month: '2026-11', spent: 1, forecast: 2, softReached: false, hardReached: false },
          ],
        }),
        forecast: async () => ({
          available: 10,
          burnRate: 1,
          step: 'warn',
          lastsUntilUnixMs: 36_000_000,
          archiveAtUnixMs: null,
          deleteAtUnixMs: 5,
          steps: [{ step: 'noStarts', atUnixMs: 32_400_000 }],
          month: '2026-11',
          timeZone: 'UTC',
          monthToDate: 3,
          monthForecast: 8,
        }),
      },
    }),
  );
});
afterAll(() => api.stop());

const post = (path: string, body: object, headers = {}) => api.post(path, body, { token: ADMIN_TOKEN, headers });

test('sets a budget once for an idempotency key, of the caller and of an account', async () => {
  const scope = { label: { key: 'team', value: 'physics' } };
  const own = await post('/billing/budget/set', { name: 'b', scope, soft: 5, hard: 10.25 }, { 'idempotency-key': 'k' });
  expect(own).toMatchObject({ status: 200, json: { budget: { ...budget, name: 'b' } } });
  const other = await post('/admin/account/budget/set', {
    username: 'ann',
    name: 'c',
    hard: 1,
    timeZone: 'Europe/Berlin',
  });
  expect(other.status).toBe(200);
  expect(given).toEqual([
    { name: 'b', scope, soft: 5, hard: 10.25 },
    expect.objectContaining({ key: 'k' }),
    { username: 'ann', name: 'c', hard: 1, timeZone: 'Europe/Berlin' },
    null,
  ]);
});

test('lists budgets, and forecasts with times in Unix milliseconds', async () => {
  expect((await post('/billing/budget/list', {})).json).toMatchObject({
    budgets: [{ name: 'b', spent: 1, forecast: 2 }],
  });
  expect((await post('/billing/forecast', {})).json).toEqual({
    available: 10,
    burnRate: 1,
    lastsUntilUnixMs: 36_000_000,
    step: 'warn',
    archiveAtUnixMs: null,
    deleteAtUnixMs: 5,
    steps: [{ step: 'noStarts', atUnixMs: 32_400_000 }],
    month: '2026-11',
    timeZone: 'UTC',
    monthToDate: 3,
    monthForecast: 8,
  });
});

test.each([
  [{ soft: -1 }, 'soft'],
  [{ soft: 1e12 }, 'soft'],
  [{ hard: 0.000_000_1 }, 'hard'],
  [{ hard: '5' }, 'hard'],
  [{ hard: [] }, 'hard'],
  [{ name: '', soft: 1 }, 'name'],
  [{ name: 'x'.repeat(65), soft: 1 }, 'name'],
  [{ soft: 1, timeZone: '+01:00' }, 'timeZone'],
  [{ soft: 1, scope: {} }, 'label'],
  [{ soft: 1, scope: { label: { key: 'a b', value: '' } } }, 'key'],
  [{ soft: 1, scope: { label: { key: 'a', value: '' }, region: 'x' } }, 'region'],
  [{ soft: 1, maximum: 5 }, 'maximum'],
])('refuses %j and names the field', async (body, field) => {
  const { status, json } = await post('/billing/budget/set', { name: 'b', ...body });
  expect(status).toBe(400);
  expect(JSON.stringify(json)).toContain(field);
});

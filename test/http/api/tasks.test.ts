/** Background tasks over HTTP: administrators see how each run went. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ADMIN_TOKEN, fakeControl, GOOD_TOKEN } from './fake-control.ts';
import { startEdge, type BareApi } from './harness.ts';

const failing = {
  name: 'probe',
  intervalMs: 10_000,
  running: false,
  lastDurationMs: 12,
  lastError: 'the engine is away',
  runs: 3,
  failures: 1,
};

const due = {
  kind: 'stop',
  count: 2,
  nextAtMs: 5_000,
  failing: [{ subjectId: 'a', failures: 1, error: 'the database is away' }],
};

let api: BareApi;
beforeAll(async () => {
  const list = async () => [{ ...failing, lastStartedAt: 1_000 }];
  api = await startEdge(fakeControl({ tasks: { list, due: async () => [due] } }));
});
afterAll(() => api.stop());

test('lists the tasks and what is due, with the last errors, to administrators', async () => {
  const reply = await api.post('/admin/task/list', {}, { token: ADMIN_TOKEN });
  expect(reply).toMatchObject({ status: 200, json: { tasks: [{ ...failing, lastStartedAt: 1_000 }], due: [due] } });
});

test('refuses other callers', async () => {
  expect(await api.post('/admin/task/list', {}, { token: GOOD_TOKEN })).toMatchObject({ status: 403 });
});

/** Fair queue of statements, usage, exports and quotes. */
import { expect, onTestFinished, test } from 'vitest';
import { fakeControl, fakeCaller, GOOD_TOKEN } from './fake-control.ts';
import { startEdge } from './harness.ts';

test('runs one report of an account at a time, refuses a flood, and answers another account meanwhile', async () => {
  const first = Promise.withResolvers<never[]>();
  let running = 0;
  const api = await startEdge(
    fakeControl({
      access: {
        authenticate: async (credential) =>
          credential.kind === 'token' && credential.token === GOOD_TOKEN
            ? fakeCaller
            : { ...fakeCaller, accountId: 'other' },
      },
      budgets: {
        forecast: async ({ accountId }) => {
          if (accountId === 'other') throw new Error('other is asked');
          running += 1;
          await first.promise;
          throw new Error('asked');
        },
      },
    }),
  );
  onTestFinished(async () => {
    first.resolve([]);
    await api.stop();
  });
  const ask = (token: string) => api.post('/billing/forecast', {}, { token });
  const flood = Array.from({ length: 30 }, () => ask(GOOD_TOKEN));
  const refused = await Promise.race(flood);
  expect(refused).toMatchObject({ status: 429, headers: { 'retry-after': '1' } });
  expect((await ask('another')).status).toBe(500);
  expect(running).toBe(1);
  first.resolve([]);
  const statuses = (await Promise.all(flood)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 429)).toHaveLength(14);
  expect(running).toBe(16);
});

/** Fair queue of statements, usage, exports and quotes. */
import { expect, onTestFinished, test } from 'vitest';
import { makeReportQueue } from '../../../src/edge/http/report-queue.ts';
import { fakeControl, fakeCaller, GOOD_TOKEN } from './fake-control.ts';
import { startEdge } from './harness.ts';

const kinds: [path: string, body: object][] = [
  ['/billing/forecast', {}],
  ['/instance/logs', { instanceId: 'notebook-1', source: 'events', tail: 5_000 }],
];

test.for(kinds)(
  'runs one %s of an account at a time, refuses a flood, and answers another account',
  async ([path, body]) => {
    const first = Promise.withResolvers<never[]>();
    let running = 0;
    const report = async ({ accountId }: { accountId: string }): Promise<never> => {
      if (accountId === 'other') throw new Error('other is asked');
      running += 1;
      await first.promise;
      throw new Error('asked');
    };
    const api = await startEdge(
      fakeControl({
        access: {
          authenticate: async (credential) =>
            credential.kind === 'token' && credential.token === GOOD_TOKEN
              ? fakeCaller
              : { ...fakeCaller, accountId: 'other' },
        },
        budgets: { forecast: report },
        logs: { read: report },
      }),
    );
    onTestFinished(async () => {
      first.resolve([]);
      await api.stop();
    });
    const ask = (token: string) => api.post(path, body, { token });
    const flood = Array.from({ length: 30 }, () => ask(GOOD_TOKEN));
    const refused = await Promise.race(flood);
    expect(refused).toMatchObject({ status: 429, headers: { 'retry-after': '1' } });
    expect((await ask('another')).status).toBe(500);
    expect(running).toBe(1);
    first.resolve([]);
    const statuses = (await Promise.all(flood)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 429)).toHaveLength(14);
    expect(running).toBe(16);
  },
);

test('reads the parts of downloads in turn, and counts a download until its end', async () => {
  const first = Promise.withResolvers<void>();
  let reading = 0;
  let most = 0;
  // oxlint-disable-next-line require-yield -- an export without charges
  async function* pages(): AsyncGenerator<never[]> {
    reading += 1;
    most = Math.max(most, reading);
    await first.promise;
    reading -= 1;
  }
  const api = await startEdge(
    fakeControl({
      chargeExports: {
        own: async () => ({
          month: '2026-11',
          timeZone: 'UTC',
          span: { fromMs: 0, untilMs: 1 },
          pages: pages(),
        }),
      },
    }),
  );
  onTestFinished(async () => {
    first.resolve();
    await api.stop();
  });
  const answered: number[] = [];
  const allRefused = Promise.withResolvers<void>();
  const flood = Array.from({ length: 30 }, async () => {
    const { status } = await api.send('/api/billing/focus.csv?month=2026-11', { token: GOOD_TOKEN });
    answered.push(status);
    if (answered.length === 14) allRefused.resolve();
  });
  // The others are downloads under way: all of them wait for the first.
  await allRefused.promise;
  expect(new Set(answered)).toEqual(new Set([429]));
  first.resolve();
  await Promise.all(flood);
  expect(answered.filter((status) => status === 200)).toHaveLength(16);
  expect(most).toBe(1);
});

test('leaves the place of a step empty for as long as it took, after its answer', async () => {
  let nowMs = 0;
  const pauses: { ms: number; end: () => void }[] = [];
  const pause = (ms: number): Promise<void> => new Promise((end) => void pauses.push({ ms, end }));
  const queue = makeReportQueue({ now: () => nowMs, pause });
  const begun: string[] = [];
  const report = (account: string, ms: number): Promise<string> =>
    queue.run(account, (runStep) =>
      runStep(async () => {
        begun.push(account);
        nowMs += ms;
        if (ms === 0) throw new Error('nothing to read');
        return account;
      }),
    );
  expect(await report('ann', 70)).toBe('ann');
  const next = report('ann', 9_000);
  expect(await report('bob', 5)).toBe('bob');
  expect([begun, pauses.map(({ ms }) => ms)]).toEqual([
    ['ann', 'bob'],
    [70, 5],
  ]);
  pauses[0]?.end();
  expect(await next).toBe('ann');
  await expect(report('carl', 0)).rejects.toThrow('nothing to read');
  expect(pauses.map(({ ms }) => ms)).toEqual([70, 5, 2_000, 0]);
});

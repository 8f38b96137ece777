/** Events are numbered 1, 2, 3 … per account, under failures and concurrent writers. */
import { expect, test } from 'vitest';
import { appendEvent, eventsSince } from '../../../src/store/tables/events.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { insertOwners } from './rows.ts';

const event = (accountId: string, subjectId: string) => ({
  accountId,
  atMs: 5,
  kind: 'instance.launched',
  subjectId,
  data: { n: 1 },
});

onBothEngines('events', { postgres: 'always' }, (open) => {
  test('numbers have no gaps despite rollbacks and concurrent writes', async () => {
    const store = await open();
    await store.write((tx) => insertOwners(tx, 'region', 'ann', 'bob'));
    const outcomes = await Promise.allSettled(
      Array.from({ length: 200 }, (_, i) =>
        store.write(async (tx) => {
          const appended = await appendEvent(tx, event(i % 2 === 0 ? 'ann' : 'bob', `n${i}`));
          if (i % 5 === 0) throw new Error('undone');
          return appended.seq;
        }),
      ),
    );
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(40);
    for (const account of ['ann', 'bob']) {
      const events = await eventsSince(store.read, account, 0, 1_000);
      expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 80 }, (_, i) => i + 1));
      const row = await store.read
        .selectFrom('account')
        .selectAll()
        .where('id', '=', account)
        .executeTakeFirstOrThrow();
      expect(row).toMatchObject({ eventSeq: 80, version: 80 });
      expect(await store.versionOf(account)).toBe(80);
    }
    const answered = outcomes.flatMap((outcome, i) =>
      outcome.status === 'fulfilled'
        ? [{ seq: outcome.value, subjectId: `n${i}`, accountId: i % 2 === 0 ? 'ann' : 'bob' }]
        : [],
    );
    const stored = await store.read.selectFrom('event').select(['seq', 'subjectId', 'accountId']).execute();
    const byName = (a: { subjectId: string }, b: { subjectId: string }) => (a.subjectId < b.subjectId ? -1 : 1);
    expect(answered.sort(byName)).toEqual(stored.map((row) => ({ ...row })).sort(byName));
  });

  test('an event updates version and counters, and says whether it is disabled', async () => {
    const store = await open();
    await store.write((tx) => insertOwners(tx, 'region', 'ann'));
    const appended = await store.write((tx) =>
      appendEvent(tx, { ...event('ann', 'n1'), counts: { instances: 2, volumes: -1 } }),
    );
    expect(appended).toEqual({ seq: 1, version: 1, isDisabled: false });
    const account = await store.read.selectFrom('account').selectAll().executeTakeFirstOrThrow();
    expect(account).toMatchObject({ instanceCount: 2, volumeCount: -1, eventSeq: 1, version: 1 });
  });

  test('a reader continues from its last number', async () => {
    const store = await open();
    await store.write((tx) => insertOwners(tx, 'region', 'ann'));
    for (const subject of ['a', 'b', 'c', 'd']) await store.write((tx) => appendEvent(tx, event('ann', subject)));
    const page = await eventsSince(store.read, 'ann', 1, 2);
    expect(page.map(({ seq, subjectId, data }) => [seq, subjectId, data])).toEqual([
      [2, 'b', '{"n":1}'],
      [3, 'c', '{"n":1}'],
    ]);
  });

  test('refuses an event of an unknown account', async () => {
    const store = await open();
    await expect(store.write((tx) => appendEvent(tx, event('nobody', 'a')))).rejects.toThrow(
      /account nobody, which does not exist/,
    );
    expect(await eventsSince(store.read, 'nobody', 0, 10)).toEqual([]);
  });
});

/** A request sent many times with one key runs once, with the same answer to all. */
import { expect, test } from 'vitest';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { deleteAnswersBefore, storeAnswer, claimIdempotencyKey } from '../../../src/store/tables/idempotency.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { accountRow } from './rows.ts';

const fn = { key: 'k1', route: 'POST /instance/create', bodyHash: 'hash' };

interface Answer {
  instanceId: string;
}

/** Counts runs in the account's row, so a second run shows in the database too. */
const send = (
  store: Store,
  instanceId: string,
  given: Partial<typeof fn> & { nowMs?: number; fail?: boolean } = {},
): Promise<Answer> =>
  store.write(async (tx) => {
    const asked = { ...fn, ...given };
    const before = await claimIdempotencyKey(tx, 'ann', asked);
    if (before) return before.answer as Answer;
    await tx
      .updateTable('account')
      .set((eb) => ({ instanceCount: eb('instanceCount', '+', 1) }))
      .where('id', '=', 'ann')
      .execute();
    if (given.fail) throw new Error('no capacity');
    const answer = { instanceId };
    await storeAnswer(tx, 'ann', asked, answer, given.nowMs ?? 1_000);
    return answer;
  });

const calls = async (store: Store): Promise<number> =>
  (await store.read.selectFrom('account').select('instanceCount').executeTakeFirstOrThrow()).instanceCount;

const refusalOf = async (promise: Promise<unknown>): Promise<Refusal> => {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof Refusal)) throw new Error('it was not refused', { cause: error });
  return error;
};

onBothEngines('idempotency', { postgres: 'always' }, (open) => {
  const opened = async (): Promise<Store> => {
    const store = await open();
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(accountRow({ id: 'ann' }))
        .execute(),
    );
    return store;
  };

  test('200 at once with one key: one run, one answer', async () => {
    const store = await opened();
    const stores = [store, ...(open.kind === 'postgres' ? [await open.again(store)] : [])];
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => send(stores[i % stores.length] ?? store, `n${i}`)),
    );
    expect(new Set(answers.map(({ instanceId }) => instanceId)).size).toBe(1);
    expect(await calls(store)).toBe(1);
  });

  test('a failed request is not stored: the next request with its key runs', async () => {
    const store = await opened();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, i) => send(store, `n${i}`, { fail: i < 10 })),
    );
    expect(await calls(store)).toBe(1);
    const answers = new Set(
      outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value.instanceId] : [])),
    );
    expect(answers.size).toBe(1);
  });

  test('refuses another body or route with the same key', async () => {
    const store = await opened();
    await send(store, 'n1');
    const body = await refusalOf(send(store, 'n2', { bodyHash: 'other' }));
    expect([body.code, body.message]).toEqual([
      'idempotency_mismatch',
      expect.stringContaining('already used with another body'),
    ]);
    const route = await refusalOf(send(store, 'n2', { route: 'POST /storage/volume/create' }));
    expect([route.code, route.message]).toEqual([
      'idempotency_mismatch',
      expect.stringContaining('POST /instance/create'),
    ]);
    expect(await calls(store)).toBe(1);
  });

  test('keys of different accounts are independent', async () => {
    const store = await opened();
    await send(store, 'n1');
    expect(await store.write((tx) => claimIdempotencyKey(tx, 'bob', fn))).toBeNull();
  });

  test('a request without an answer runs once, too', async () => {
    const store = await opened();
    const done: (Awaited<ReturnType<typeof claimIdempotencyKey>> | 'again')[] = [];
    for (let i = 0; i < 2; i++) {
      await store.write(async (tx) => {
        const before = await claimIdempotencyKey(tx, 'ann', fn);
        done.push(before);
        if (!before) await storeAnswer(tx, 'ann', fn, undefined, 1_000);
      });
    }
    expect(done).toEqual([null, { answer: undefined }]);
  });

  test('deletes old answers in batches, oldest first, and keeps young ones', async () => {
    const store = await opened();
    for (let i = 0; i < 7; i++) await send(store, `n${i}`, { key: `k${i}`, nowMs: 1_000 + i });
    const forget = () => store.write((tx) => deleteAnswersBefore(tx, 1_005, 3));
    expect([await forget(), await forget(), await forget()]).toEqual([3, 2, 0]);
    const stored = await store.read.selectFrom('idempotency').select('key').orderBy('key').execute();
    expect(stored.map(({ key }) => key)).toEqual(['k5', 'k6']);
  });
});

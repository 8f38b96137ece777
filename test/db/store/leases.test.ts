/**
 * Leases: order and fairness of claims, takeover from a dead process, superseded results, and no
 * row with two holders.
 */
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import type { Claim, LeaseTable } from '../../../src/store/db/leases.ts';
import {
  claimDue,
  releaseAllLeases,
  heartbeat,
  leasedGenerations,
  nextDueAt,
  releaseLease,
  isLeaseHeld,
} from '../../../src/store/db/leases.ts';
import type { Db, Store } from '../../../src/store/store.ts';
import { onBothEngines, onEngine } from '../../fixtures/store.ts';
import { howSqliteReads } from './query-plan.ts';
import { insertOwners, instanceRow, volumeRow } from './rows.ts';

interface Row {
  id: string;
  ownerId: string;
  dueAtMs: number | null;
  leaseOwner?: string;
  leaseToken?: string;
  leaseUntilMs?: number;
}

const tables: LeaseTable[] = ['instance', 'volume', 'dueAct'];

const insert = (tx: Db, table: LeaseTable, rows: Row[]): Promise<unknown> =>
  table === 'dueAct'
    ? tx
        .insertInto('dueAct')
        .values(rows.map((row) => ({ kind: 'stop', subjectId: row.id, generation: 1, ...row })))
        .execute()
    : table === 'instance'
      ? tx
          .insertInto('instance')
          .values(rows.map((row) => instanceRow({ regionId: 'here', ...row })))
          .execute()
      : tx
          .insertInto('volume')
          .values(rows.map((row) => volumeRow({ regionId: 'here', ...row })))
          .execute();

const claimOf = (given: Partial<Claim>): Claim => ({
  owner: 'process',
  token: 'token',
  nowMs: 1_000,
  untilMs: 9_000,
  limit: 100,
  perOwner: 100,
  ...given,
});

const claim = async (store: Store, table: LeaseTable, given: Partial<Claim> = {}): Promise<string[]> =>
  (await store.write((tx) => claimDue(tx, table, claimOf(given)))).map(({ id }) => id);

const dueOf = async (store: Store, table: LeaseTable, id: string): Promise<number | null | undefined> =>
  (await store.read.selectFrom(table).select('dueAtMs').where('id', '=', id).executeTakeFirst())?.dueAtMs;

onBothEngines('leases', { postgres: 'always' }, (open) => {
  const opened = async (table: LeaseTable, rows: Row[]): Promise<Store> => {
    const store = await open();
    await store.write((tx) => insertOwners(tx, 'here', 'ann', 'bob', 'eve'));
    await store.write((tx) => insert(tx, table, rows));
    return store;
  };

  test.each(tables)('%s: claims due, free rows, oldest first, up to the limit', async (table) => {
    const store = await opened(table, [
      { id: 'a-late', ownerId: 'ann', dueAtMs: 900 },
      { id: 'b-at-rest', ownerId: 'ann', dueAtMs: null },
      { id: 'c-early', ownerId: 'ann', dueAtMs: 100 },
      { id: 'd-now', ownerId: 'bob', dueAtMs: 1_000 },
      { id: 'e-future', ownerId: 'bob', dueAtMs: 1_001 },
      { id: 'f-held', ownerId: 'ann', dueAtMs: 50, leaseOwner: 'other', leaseToken: 'x', leaseUntilMs: 1_001 },
      { id: 'g-expired', ownerId: 'ann', dueAtMs: 300, leaseOwner: 'other', leaseToken: 'x', leaseUntilMs: 1_000 },
    ]);
    expect(await claim(store, table, { limit: 2, token: 'first' })).toEqual(['c-early', 'g-expired']);
    expect(await claim(store, table, { token: 'second' })).toEqual(['a-late', 'd-now']);
    expect(await claim(store, table)).toEqual([]);
  });

  test('a claim returns the whole row with its lease', async () => {
    const store = await opened('instance', [{ id: 'a', ownerId: 'ann', dueAtMs: 1 }]);
    const [row] = await store.write((tx) => claimDue(tx, 'instance', claimOf({ owner: 'me', token: 'mine' })));
    expect(row).toMatchObject({
      id: 'a',
      ownerId: 'ann',
      spec: '{}',
      leaseOwner: 'me',
      leaseToken: 'mine',
      generation: 1,
    });
    expect(row?.leaseUntilMs).toBeGreaterThanOrEqual(9_000);
  });

  test.each(tables)("%s: 200 due rows of one owner don't delay another's", async (table) => {
    const many = Array.from({ length: 200 }, (_, i) => ({
      id: `a${String(i).padStart(3, '0')}`,
      ownerId: 'ann',
      dueAtMs: i,
    }));
    const store = await opened(table, [
      ...many,
      { id: 'b', ownerId: 'bob', dueAtMs: 900 },
      { id: 'e', ownerId: 'eve', dueAtMs: 950 },
    ]);
    expect(await claim(store, table, { limit: 6, perOwner: 4, token: '1' })).toEqual([
      'a000',
      'a001',
      'a002',
      'a003',
      'b',
      'e',
    ]);
    // Without other waiting owners, one owner gets the rest.
    expect(await claim(store, table, { limit: 6, perOwner: 4, token: '2' })).toEqual(
      many.slice(4, 10).map(({ id }) => id),
    );
  });

  test.each(tables)('%s: frees the rows of a dead process when its lease ends', async (table) => {
    const store = await opened(table, [{ id: 'a', ownerId: 'ann', dueAtMs: 500 }]);
    expect(await claim(store, table, { token: 'dead', untilMs: 2_000 })).toEqual(['a']);
    const endsAtMs = await nextDueAt(store.read, table);
    expect(endsAtMs).toBeGreaterThanOrEqual(2_000);
    expect(await claim(store, table, { nowMs: 1_999 })).toEqual([]);
    expect(await claim(store, table, { nowMs: endsAtMs ?? 0, token: 'heir' })).toEqual(['a']);
  });

  test.each(tables)('%s: a heartbeat extends only the named leases of its own process', async (table) => {
    const store = await opened(table, [
      { id: 'a', ownerId: 'ann', dueAtMs: 500 },
      { id: 'b', ownerId: 'ann', dueAtMs: 600 },
      { id: 'c', ownerId: 'ann', dueAtMs: 700 },
      { id: 'd', ownerId: 'ann', dueAtMs: 800 },
    ]);
    for (const token of ['1', '2', '3']) await claim(store, table, { owner: 'one', token, limit: 1, untilMs: 2_000 });
    await claim(store, table, { owner: 'two', token: '4', untilMs: 2_000 });
    await store.write((tx) => heartbeat(tx, table, { owner: 'one', tokens: ['1', '2', '4'], untilMs: 5_000 }));
    expect(await leasedGenerations(store.read, table, 'two')).toEqual([{ id: 'd', generation: 1 }]);
    expect(await claim(store, table, { nowMs: 4_999 })).toEqual(['c', 'd']);
    expect(await nextDueAt(store.read, table)).toBe(5_000);
  });

  test.each(tables)('%s: a stale token changes nothing', async (table) => {
    const store = await opened(table, [{ id: 'a', ownerId: 'ann', dueAtMs: 500 }]);
    await claim(store, table, { token: 'stale', untilMs: 1_500 });
    await claim(store, table, { token: 'fresh', nowMs: 3_000, untilMs: 4_000 });
    expect(await store.write((tx) => releaseLease(tx, table, 'a', 'stale', { dueAtMs: null }))).toBe(false);
    const write = (leaseToken: string, generation: number) =>
      store.write((tx) =>
        sql`update ${sql.table(table)} set id = id where ${isLeaseHeld({ id: 'a', leaseToken, generation })}`.execute(
          tx,
        ),
      );
    expect((await write('stale', 1)).numAffectedRows).toBe(0n);
    expect((await write('fresh', 2)).numAffectedRows).toBe(0n);
    expect((await write('fresh', 1)).numAffectedRows).toBe(1n);
    expect(await store.write((tx) => releaseLease(tx, table, 'a', 'fresh', { dueAtMs: null }))).toBe(true);
    expect(await dueOf(store, table, 'a')).toBeNull();
    expect(await store.write((tx) => releaseLease(tx, table, 'a', 'fresh', { dueAtMs: 1 }))).toBe(false);
  });

  test.each(tables)('%s: a row made due while leased stays due after the release', async (table) => {
    const ids = ['to-rest', 'to-later', 'to-earlier', 'untouched', 'beaten'];
    const store = await opened(
      table,
      ids.map((id) => ({ id, ownerId: 'ann', dueAtMs: 1_000 })),
    );
    await claim(store, table, { nowMs: 1_000 });
    const wake = ids.filter((id) => id !== 'untouched');
    await store.write((tx) => tx.updateTable(table).set({ dueAtMs: 1_000 }).where('id', 'in', wake).execute());
    await store.write((tx) => heartbeat(tx, table, { owner: 'process', tokens: ['token'], untilMs: 20_000 }));
    expect(await nextDueAt(store.read, table)).toBe(20_000);
    const giveBack = (id: string, dueAtMs: number | null) =>
      store.write((tx) => releaseLease(tx, table, id, 'token', { dueAtMs }));
    await giveBack('to-rest', null);
    await giveBack('to-later', 7_000);
    await giveBack('to-earlier', 800);
    await giveBack('untouched', 7_000);
    expect(await Promise.all(ids.slice(0, 4).map((id) => dueOf(store, table, id)))).toEqual([1_000, 1_000, 800, 7_000]);
    expect(await nextDueAt(store.read, table)).toBe(800);
  });

  test.each(tables)('%s: concurrent claims never lease a row twice, and leave none', async (table) => {
    const ids = Array.from({ length: 300 }, (_, i) => `r${i}`);
    const store = await opened(
      table,
      ids.map((id, i) => ({ id, ownerId: ['ann', 'bob', 'eve'][i % 3] ?? '', dueAtMs: i })),
    );
    const stores = [store, ...(open.kind === 'postgres' ? [await open.again(store), await open.again(store)] : [])];
    const got: string[] = [];
    const claimer = async (from: Store, owner: string): Promise<void> => {
      for (let round = 0; got.length < ids.length; round++) {
        got.push(
          ...(await claim(from, table, { owner, token: `${owner}-${round}`, nowMs: 1_000, limit: 7, perOwner: 2 })),
        );
      }
    };
    await Promise.all(stores.flatMap((from, i) => [claimer(from, `${i}a`), claimer(from, `${i}b`)]));
    expect(got.sort()).toEqual(ids.sort());
  });

  test('releases the leases of the former process at a lone start', async () => {
    const store = await opened('instance', [
      { id: 'a', ownerId: 'ann', dueAtMs: 10 },
      { id: 'b', ownerId: 'ann', dueAtMs: null },
    ]);
    await claim(store, 'instance');
    await store.write((tx) => releaseAllLeases(tx, 1_200));
    expect(await dueOf(store, 'instance', 'b')).toBeNull();
    expect(await claim(store, 'instance', { nowMs: 1_200 })).toEqual(['a']);
  });

  test.each(tables)('%s: nothing is due with all rows at rest', async (table) => {
    const store = await opened(table, [{ id: 'a', ownerId: 'ann', dueAtMs: null }]);
    expect(await nextDueAt(store.read, table)).toBeNull();
    expect(await claim(store, table)).toEqual([]);
  });
});

onEngine('sqlite', 'leases', (open) => {
  test.each([...tables, 'image'] as const)('%s: every query skips rows at rest by an index', async (table) => {
    const store = await open();
    const questions: ((db: Db) => Promise<unknown>)[] = [
      (db) => claimDue(db, table, claimOf({})),
      (db) => nextDueAt(db, table),
      (db) => leasedGenerations(db, table, 'process'),
      (db) => heartbeat(db, table, { owner: 'process', tokens: ['token'], untilMs: 1 }),
    ];
    for (const question of questions) {
      const touching = (await howSqliteReads(store, question)).filter((detail) => detail.includes(` ${table} `));
      expect(touching.length).toBeGreaterThan(0);
      for (const detail of touching)
        expect(detail).toMatch(new RegExp(`INDEX (${table}_due|${table}_lease|sqlite_autoindex_${table}_1)`));
    }
  });
});

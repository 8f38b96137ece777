import { inject, expect, onTestFinished, test } from 'vitest';
import pg from 'pg';
import { lockDatabase } from '../../../src/store/db/database-lock.ts';
import { quietLog } from '../../fixtures/store.ts';

const url = (): string => {
  const shared = inject('postgresUrl');
  if (!shared) throw new Error('this test needs the PostgreSQL of the run');
  return shared.replace('%s', 'postgres');
};
const lock = async (onLost: () => void = () => {}) => {
  const databaseLock = await lockDatabase({ url: url(), log: quietLog, onLost, lostAfterMs: 600 });
  onTestFinished(() => databaseLock.release());
  return databaseLock;
};

test('refuses a second server until the first has stopped', async () => {
  const first = await lock();
  await expect(lock()).rejects.toThrow(/in use by another Berth/);
  await first.release();
  await lock();
});

test('acquires a lost lock again, and reports its loss to another server', async () => {
  const other = new pg.Client({ connectionString: url() });
  await other.connect();
  onTestFinished(() => other.end());
  const lost = Promise.withResolvers<void>();
  const databaseLock = await lock(lost.resolve);
  const held: boolean[] = [];
  databaseLock.onChange(() => held.push(databaseLock.isHeld()));
  // Only of this database: concurrent tests have locks of their own.
  const holders = `select pid from pg_locks where locktype = 'advisory' and granted
    and database = (select oid from pg_database where datname = current_database())`;
  const pids = async () => (await other.query<{ pid: number }>(holders)).rows.map(({ pid }) => pid);
  const before = await pids();
  await other.query(`select pg_terminate_backend(pid) from (${holders}) held`);
  const again = async () => (await pids()).filter((pid) => !before.includes(pid)).length;
  await expect.poll(again).toBe(1);
  await expect.poll(() => held).toEqual([false, true]);
  await expect(lock()).rejects.toThrow(/in use/);

  // Another server takes the lock in between, as it already waits for it.
  const waiting = other.query('select pg_advisory_lock($1)', [0x626572746864]);
  const killer = new pg.Client({ connectionString: url() });
  await killer.connect();
  onTestFinished(() => killer.end());
  const waiters = `select pid from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())`;
  await expect.poll(async () => (await killer.query(waiters)).rowCount).toBe(1);
  await killer.query(`select pg_terminate_backend(pid) from (${holders}) held`);
  await waiting;
  // Not only once it is sure: the other has begun.
  await expect.poll(() => held).toEqual([false, true, false]);
  await lost.promise;
});

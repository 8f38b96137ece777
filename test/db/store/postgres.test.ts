/** Behavior only PostgreSQL can show: deadlocks, server restarts. */
import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { heartbeat } from '../../../src/store/db/leases.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Db } from '../../../src/store/store.ts';
import { makeDue } from '../../../src/store/tables/instances.ts';
import { onEngine, recordingLog } from '../../fixtures/store.ts';
import { ownServer } from './own-server.ts';
import { accountRow, insertOwners, instanceRow } from './rows.ts';

const bump = (tx: Db, id: string) =>
  tx
    .updateTable('account')
    .set((eb) => ({ version: eb('version', '+', 1) }))
    .where('id', '=', id)
    .execute();

onEngine('postgres', 'a stop', (open) => {
  test('answers reads that wait for a connection, then refuses others', async () => {
    const [locked, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const store = await open();
    const other = await open.again(store);
    const holding = other.write(async (tx) => {
      await sql`select pg_advisory_xact_lock(1)`.execute(tx);
      locked.resolve();
      await gate.promise;
    });
    await locked.promise;
    const read = () => sql`select pg_advisory_xact_lock_shared(1)`.execute(store.read);
    const reads = Promise.allSettled(Array.from({ length: 20 }, read));
    const blocked = sql`select 1 from pg_stat_activity where wait_event = 'advisory' and datname = current_database()`;
    // The pool has 16 connections: 4 reads wait for one.
    await expect.poll(async () => (await blocked.execute(other.read)).rows.length).toBe(16);
    const stopped = store.stop();
    gate.resolve();
    await Promise.all([holding, stopped]);
    expect(new Set((await reads).map(({ status }) => status))).toEqual(new Set(['fulfilled']));
    await expect(read()).rejects.toMatchObject({ code: 'unavailable' });
  });
});

onEngine('postgres', 'a full disk', (open) => {
  test('refuses the write with what was wrong', async () => {
    const store = await open();
    const raise = sql`do $$ begin raise 'could not extend file' using errcode = 'disk_full'; end $$`;
    await expect(store.write((tx) => raise.execute(tx))).rejects.toMatchObject({ code: 'storage_full' });
  });
});

onEngine('postgres', 'writes that meet', (open) => {
  test('runs the victim of a deadlock again, until both works are done', async () => {
    const store = await open();
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values([accountRow({ id: 'a' }), accountRow({ id: 'b' })])
        .execute(),
    );
    let runs = 0;
    const holding = Promise.withResolvers<void>();
    let waiting = 2;
    const crossing = (first: string, second: string) =>
      store.write(async (tx) => {
        runs++;
        await bump(tx, first);
        if (--waiting === 0) holding.resolve();
        await holding.promise;
        await bump(tx, second);
      });
    await Promise.all([crossing('a', 'b'), crossing('b', 'a')]);
    // A victim that begins again before the other wakes takes its row first: they deadlock again.
    expect(runs).toBeGreaterThan(2);
    expect([await store.versionOf('a'), await store.versionOf('b')]).toEqual([2, 2]);
  });

  test.for([
    ['heartbeat', (tx: Db) => heartbeat(tx, 'instance', { owner: 'me', tokens: ['a', 'b'], untilMs: 9 })],
    ['makeDue', (tx: Db) => makeDue(tx, ['b', 'a'], 9)],
  ] as const)('locks rows by id, whatever their order on the disk: %s', async ([, change]) => {
    const store = await open();
    const held = { ownerId: 'me', regionId: 'here', leaseOwner: 'me', leaseUntilMs: 5, dueAtMs: 5 };
    await store.write(async (tx) => {
      await insertOwners(tx, 'here', 'me');
      for (const id of ['b', 'a'])
        await tx
          .insertInto('instance')
          .values(instanceRow({ id, ...held, leaseToken: id }))
          .execute();
    });
    let runs = 0;
    let after: Promise<void> | undefined;
    const touch = (tx: Db, id: string) => tx.updateTable('instance').set({ dueAtMs: 1 }).where('id', '=', id).execute();
    const waiting = sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
    await store.write(async (tx) => {
      runs++;
      await touch(tx, 'a');
      after = store.write((other) => {
        runs++;
        return change(other);
      });
      await expect.poll(async () => (await waiting.execute(store.read)).rows.length).toBe(1);
      await touch(tx, 'b');
    });
    await after;
    expect(runs).toBe(2);
  });

  test('fails a work after its last retry, with the reason of the server', async () => {
    const store = await open();
    let runs = 0;
    const never = store.write(async (tx) => {
      runs++;
      await sql`do $$ begin raise exception 'in the way' using errcode = '40001'; end $$`.execute(tx);
    });
    await expect(never).rejects.toThrow('in the way');
    expect(runs).toBe(8);
  });

  test('does not retry a permanent error', async () => {
    const store = await open();
    let runs = 0;
    const wrong = store.write(async (tx) => {
      runs++;
      await sql`select 1 / 0`.execute(tx);
    });
    await expect(wrong).rejects.toThrow(/division by zero/);
    expect(runs).toBe(1);
  });

  test('int8 is a number for this store and untouched for other users of pg in the process', async () => {
    const store = await open();
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(accountRow({ id: 'a', createdAtMs: 5 }))
        .execute(),
    );
    const { default: pg } = await import('pg');
    expect(pg.types.getTypeParser(20)('5')).toBe('5');
    expect((await store.read.selectFrom('account').select('createdAtMs').executeTakeFirstOrThrow()).createdAtMs).toBe(
      5,
    );
  });
});

test('reconnects by itself after a server restart', async () => {
  const log = recordingLog();
  const server = await ownServer();
  const store = await openStore({ url: server.urlOf('postgres'), log });
  onTestFinished(() => store.stop());
  const accounts = Array.from({ length: 10 }, (_, i) => accountRow({ id: `a${i}` }));
  await Promise.all(accounts.map((row) => store.write((tx) => tx.insertInto('account').values(row).execute())));
  await server.halt();
  await expect(store.ping()).rejects.toThrow(/does not answer|ENOENT|ECONNREFUSED|terminat/);
  await expect(store.write((tx) => bump(tx, 'a0'))).rejects.toThrow(/does not answer|ENOENT|ECONNREFUSED|terminat/);
  await server.restart();
  await store.ping();
  await store.write((tx) => bump(tx, 'a0'));
  expect(await store.versionOf('a0')).toBe(1);
  expect(log.lines.some(({ level, text }) => level === 'warn' && text.includes('was lost'))).toBe(true);
});

test('reports an unreachable server at once', async () => {
  const server = await ownServer();
  await server.halt();
  await expect(openStore({ url: server.urlOf('postgres'), log: recordingLog() })).rejects.toThrow(/does not answer/);
});

test('refuses a URL of another database, with the accepted ones', async () => {
  await expect(openStore({ url: 'mysql://localhost/x', log: recordingLog() })).rejects.toThrow(
    /must begin with postgres:\/\//,
  );
  await expect(openStore({ log: recordingLog() })).rejects.toThrow(/needs a postgres:/);
});

/** Migrations run once, also with two concurrent processes, and are never reverted. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import type { Migration } from '../../../src/store/db/migrate.ts';
import { openStore, migrations } from '../../../src/store/open.ts';
import { openPostgres } from '../../../src/store/db/postgres.ts';
import { openSqlite } from '../../../src/store/db/sqlite.ts';
import type { Db, Store } from '../../../src/store/store.ts';
import type { DatabaseAddress } from '../../fixtures/store.ts';
import { onBothEngines, quietLog, recordingLog } from '../../fixtures/store.ts';
import { insertAccounts, instanceRow } from '../store/rows.ts';

const openWith = (database: DatabaseAddress, known: readonly Migration[], log = quietLog): Promise<Store> =>
  'file' in database
    ? openSqlite({ ...database, migrations: known, log })
    : openPostgres({ ...database, migrations: known, log });

const applied = async (store: Store): Promise<string[]> =>
  (await sql<{ name: string }>`select name from migration order by name`.execute(store.read)).rows.map(
    ({ name }) => name,
  );

/** Columns of before 0002-due-acts. */
const withActs: Record<string, Record<string, number | string>> = {
  plain: {},
  timed: { stopDueAtMs: 5_000 },
  tide: { tideRegionId: 'here' },
  spot: { reclaimAtMs: 7_000 },
  stopped: { resumesAfter: 'SpotReclaimed', desired: 'stopped' },
};

/** With the columns of before 0003-gpus-by-name. */
const insertRegionsOfBefore = async (tx: Db, ...names: string[]): Promise<void> => {
  for (const name of names)
    await sql`insert into region (id, name, value, location, domain, "sshAddress", engine, "cpuMilliTotal",
        "memoryMiBTotal", "gpusTotal", "nodePortsTotal", "gpusUsed")
      values (${name}, ${name}, ${name}, '', 'localhost', '127.0.0.1', 'docker', 0, 0, 8, 0, 5)`.execute(tx);
};

const next: Migration = {
  name: '9998-next',
  up: async (db) => {
    await db.schema.createTable('extra').addColumn('id', 'text').execute();
  },
};

const openModule = new URL('../../../src/store/open.ts', import.meta.url).href;
const openAndStop = `
  const { openStore } = await import(${JSON.stringify(openModule)});
  const log = { info: (facts) => console.log(facts.migration), warn: () => {}, error: () => {} };
  const store = await openStore({ ...JSON.parse(process.argv[1]), log });
  await store.stop();`;

/** Opens in another process; returns the migrations run there. */
async function openElsewhere(database: DatabaseAddress): Promise<string[]> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', openAndStop, JSON.stringify(database)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(err);
  return out.split('\n').filter((line) => line !== '');
}

onBothEngines('migrations', { postgres: 'always' }, (open) => {
  test('an empty database gets all of them, in order, and a second opening none', async () => {
    const database = await open.empty();
    const log = recordingLog();
    await (await openStore({ ...database, log })).stop();
    expect(log.lines.map(({ facts }) => facts)).toEqual(migrations.map(({ name }) => ({ migration: name })));
    const again = recordingLog();
    const store = await openStore({ ...database, log: again });
    expect(again.lines).toEqual([]);
    expect(await applied(store)).toEqual(migrations.map(({ name }) => name));
    await store.stop();
  });

  test('concurrent openings of an empty database run each migration once', async () => {
    const database = await open.empty();
    const made = await Promise.all([openElsewhere(database), openElsewhere(database), openElsewhere(database)]);
    expect(made.flat().sort()).toEqual(migrations.map(({ name }) => name));
  });

  test('a newer version adds missing migrations and keeps the data', async () => {
    const database = await open.empty();
    const before = await openWith(database, migrations);
    await before.write((tx) => tx.insertInto('setting').values({ name: 'kept', value: '1' }).execute());
    await before.stop();
    const store = await openWith(database, [...migrations, next]);
    expect(await applied(store)).toEqual([...migrations.map(({ name }) => name), next.name]);
    expect(await store.read.selectFrom('setting').select('value').execute()).toEqual([{ value: '1' }]);
    await store.stop();
  });

  test('refuses a database newer than the code, and leaves it unchanged', async () => {
    const database = await open.empty();
    await (await openWith(database, [...migrations, next])).stop();
    await expect(openStore({ ...database, log: quietLog })).rejects.toThrow(
      'This database is newer than this version of Berth: it has the migration "9998-next"',
    );
    const store = await openWith(database, [...migrations, next]);
    expect(await applied(store)).toHaveLength(migrations.length + 1);
    await store.stop();
  });

  test('a failed migration leaves nothing, and earlier ones stay', async () => {
    const database = await open.empty();
    const failing: Migration = {
      name: '9999-failing',
      up: async (db) => {
        await db.schema.createTable('half').addColumn('id', 'text').execute();
        await sql`insert into nowhere values (1)`.execute(db);
      },
    };
    await expect(openWith(database, [...migrations, next, failing])).rejects.toThrow(/nowhere/);
    const store = await openWith(database, [...migrations, next]);
    expect(await applied(store)).toEqual([...migrations.map(({ name }) => name), next.name]);
    await expect(sql`select * from half`.execute(store.read)).rejects.toThrow(/half/);
    await store.stop();
  });

  test('timed acts become rows', async () => {
    const database = await open.empty();
    const before = await openWith(database, migrations.slice(0, 1));
    await before.write(async (tx) => {
      await insertRegionsOfBefore(tx, 'here', 'there');
      await insertAccounts(tx, 'ann', 'bob', 'eve');
      for (const [id, columns] of Object.entries(withActs)) {
        await tx
          .insertInto('instance')
          .values(instanceRow({ id, ownerId: 'ann', regionId: 'here' }))
          .execute();
        for (const [name, value] of Object.entries(columns))
          await sql`update instance set ${sql.ref(name)} = ${value} where id = ${id}`.execute(tx);
      }
      await sql`update region set drain = '{}' where id = 'here'`.execute(tx);
      for (const fromMs of [8_000, 9_000])
        await sql`insert into "priceChange" ("fromMs", "regionId", "typeId", prices, "byAccountId", "isScheduled")
          values (${fromMs}, 'here', 'type', '{}', 'ann', 1)`.execute(tx);
      await sql`update account set disabled = 1, "deleteAtMs" = 6000 where id = 'bob'`.execute(tx);
      await sql`update account set "moneyStep" = 'archive' where id = 'eve'`.execute(tx);
      await sql`insert into "paidTime" ("instanceId", "accountId", "chargeMode", units, "priceMicros", "isPaid",
          "unitsBefore", "timeZone", "dueAtMs", "firstEntryId")
        values ('plain', 'ann', 'perDay', 1, 1, 1, 0, 'UTC', 4000, 0)`.execute(tx);
    });
    await before.stop();
    const store = await openWith(database, migrations);
    const acts = await store.read.selectFrom('dueAct').select(['id', 'ownerId', 'dueAtMs']).orderBy('id').execute();
    expect(acts.map(({ id, ownerId, dueAtMs }) => `${id} of ${ownerId} at ${dueAtMs}`)).toEqual([
      'deleteAccount/bob of bob at 6000',
      'disable/bob of bob at 0',
      'drain/here of  at 0',
      'money/eve of eve at 0',
      'paidTime/plain of ann at 4000',
      'prices/here of  at 0',
      'reclaim/spot of ann at 7000',
      'resume/stopped of ann at 0',
      'stop/timed of ann at 5000',
      'window/tide of ann at 0',
    ]);
    await store.stop();
  });

  test('GPUs that instances hold count by their name', async () => {
    const database = await open.empty();
    const before = await openWith(database, migrations.slice(0, 2));
    const holding = (id: string, gpuName: string, gpuCount: number, more: object = {}) => ({
      id,
      spec: JSON.stringify({ type: { gpuName, gpuCount }, cpuOnlyPriceMicros: null, ...more }),
      holdsCapacity: 1 as const,
    });
    const rows = [
      holding('a', 'L4', 1),
      holding('b', 'L4', 2),
      holding('c', 'NVIDIA A100', 1),
      holding('cpu', '', 0),
      holding('without', 'L4', 4, { cpuOnlyPriceMicros: 1 }),
      { ...holding('stopped', 'L4', 4), holdsCapacity: 0 as const },
    ];
    await before.write(async (tx) => {
      await insertRegionsOfBefore(tx, 'empty', 'here');
      await insertAccounts(tx, 'ann');
      for (const row of rows)
        await tx
          .insertInto('instance')
          .values(instanceRow({ ...row, ownerId: 'ann', regionId: 'here' }))
          .execute();
    });
    await before.stop();
    const store = await openWith(database, migrations);
    const [empty, here] = await store.read.selectFrom('region').selectAll().orderBy('id').execute();
    expect(empty).toMatchObject({ gpusTotal: '{}', gpusUsed: '{}' });
    expect(JSON.parse(here?.gpusUsed ?? '')).toEqual({ L4: 3, 'NVIDIA A100': 1 });
    await store.stop();
  });

  test('GPUs that accounts use count in thousandths', async () => {
    const database = await open.empty();
    const before = await openWith(database, migrations.slice(0, 5));
    await before.write(async (tx) => {
      await insertAccounts(tx, 'ann', 'bob');
      await sql`update account set usage = '{"instances":2,"gpus":3,"gpus/L4":3}' where id = 'ann'`.execute(tx);
    });
    await before.stop();
    const store = await openWith(database, migrations);
    const accounts = await store.read.selectFrom('account').select('usage').orderBy('id').execute();
    expect(accounts.map(({ usage }) => JSON.parse(usage))).toEqual([{ instances: 2, gpus: 3_000, 'gpus/L4': 3 }, {}]);
    await store.stop();
  });

  test('names are unique and in the order of execution', () => {
    const names = migrations.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)].sort());
  });
});

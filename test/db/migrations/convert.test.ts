/** Data of a version before 0.2 are converted by one command, without loss. */
import { readFile } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { expect, test } from 'vitest';
import { makeConvert } from '../../../src/store/db/convert.ts';
import { migrations, openStore } from '../../../src/store/open.ts';
import { onBothEngines, quietLog, recordingLog, type DatabaseAddress } from '../../fixtures/store.ts';

type Row = Record<string, unknown>;
type Query = (statement: string) => Promise<Row[]>;

/** Queries of one connection, past the store: it opens no unconverted database. */
async function querying<Result>(database: DatabaseAddress, use: (query: Query) => Promise<Result>): Promise<Result> {
  if ('file' in database) {
    const sqlite = new DatabaseSync(database.file);
    const query: Query = async (statement) => sqlite.prepare(statement).all();
    return use(query).finally(() => sqlite.close());
  }
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    return await use(async (statement) => (await client.query<Row>(statement)).rows);
  } finally {
    await client.end();
  }
}

/** Columns in any order. */
const sorted = (rows: Row[]): string[] => rows.map((row) => JSON.stringify(row)).sort();

async function sqliteSchema(query: Query): Promise<Record<string, unknown>> {
  const tables: Record<string, unknown> = {};
  for (const table of await query(`select name, sql from sqlite_schema where type = 'table'`)) {
    const name = `'${String(table['name'])}'`;
    const indexes: unknown[] = [];
    for (const { seq: _, ...index } of await query(`select * from pragma_index_list(${name})`)) {
      const of = `'${String(index['name'])}'`;
      const columns = await query(`select seqno, name, "desc", coll, key from pragma_index_xinfo(${of})`);
      const made = await query(`select sql from sqlite_schema where name = ${of}`);
      // The columns of the whole row follow in the order of the table.
      indexes.push({ index, columns: columns.filter(({ key }) => key === 1), where: whereOf(made[0]?.['sql']) });
    }
    tables[name] = {
      columns: sorted(await query(`select name, type, "notnull", dflt_value, pk from pragma_table_xinfo(${name})`)),
      keys: sorted(
        await query(`select "table", "from", "to", on_update, on_delete from pragma_foreign_key_list(${name})`),
      ),
      kind: await query(`select wr, strict from pragma_table_list where name = ${name}`),
      isSerial: /autoincrement/i.test(String(table['sql'])),
      indexes: indexes.map((index) => JSON.stringify(index)).sort(),
    };
  }
  return tables;
}

const whereOf = (made: unknown): string | undefined => /where.*/is.exec(String(made))?.[0].replaceAll(/\s+/g, ' ');

const postgresSchema = async (query: Query): Promise<Record<string, unknown>> => ({
  columns: await query(`select table_name, column_name, data_type, is_nullable, column_default, collation_name,
    is_identity, identity_generation from information_schema.columns where table_schema = 'public' order by 1, 2`),
  keys: sorted(
    await query(`select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
      where connamespace = 'public'::regnamespace`),
  ),
  indexes: sorted(await query(`select indexdef from pg_indexes where schemaname = 'public'`)),
});

const tablesOf = (kind: string): string =>
  kind === 'sqlite'
    ? `select name from sqlite_schema where type = 'table' and name not like 'sqlite%'`
    : `select tablename as name from pg_tables where schemaname = 'public'`;

onBothEngines('data of a version before 0.2', { postgres: 'always' }, (open) => {
  const schemaOf = open.kind === 'sqlite' ? sqliteSchema : postgresSchema;

  async function before(...changes: string[]): Promise<DatabaseAddress> {
    const database = await open.empty();
    const fixture = new URL(`../../fixtures/before-0.2.${open.kind}.sql`, import.meta.url);
    const statements = (await readFile(fixture, 'utf8')).trimEnd().split(/;\n|;$/);
    await querying(database, async (query) => {
      for (const statement of [...statements, ...changes]) if (statement !== '') await query(statement);
    });
    return database;
  }

  const rowsOf = (database: DatabaseAddress): Promise<Record<string, string[]>> =>
    querying(database, async (query) => {
      const rows: Record<string, string[]> = {};
      for (const { name } of await query(tablesOf(open.kind))) {
        const stored = await query(`select * from "${String(name)}"`);
        rows[String(name)] = sorted(stored.map((row) => Object.fromEntries(Object.entries(row).sort())));
      }
      return rows;
    });

  const convert = async (database: DatabaseAddress): Promise<string[]> => {
    const log = recordingLog();
    await (await openStore({ ...database, log, prepare: makeConvert(log) })).stop();
    return log.lines.map(({ text }) => text);
  };

  test('keeps all rows of every table, and has the schema of a new database', async () => {
    const database = await before();
    const { migration: _, ...rows } = await rowsOf(database);
    expect(Object.entries(rows).filter(([, { length }]) => length === 0)).toEqual([]);
    const later = migrations.slice(1).map(() => 'the database was migrated');
    expect(await convert(database)).toEqual(['the database is converted', ...later]);
    const { migration, dueAct, quarantine, regionUse, gpuUse, region = [], ...others } = await rowsOf(database);
    const {
      totp,
      recoveryCode,
      passkey,
      amortization,
      paymentClaim,
      watch,
      instance = [],
      image = [],
      instanceType = [],
      account = [],
      session = [],
      entry = [],
      ...more
    } = others;
    const { payment = [], paymentRefund = [], ...kept } = more;
    const changed = new Set([
      'stopDueAtMs',
      'tideRegionId',
      'resumesAfter',
      'gpusTotal',
      'gpusUsed',
      'reservePerGpu',
      'secondFactors',
      'secondFactor',
      'isAmortized',
      'taxMicros',
      'placement',
      'chargeMicros',
      'chargeAtMs',
      'issuer',
      'subject',
      'providerSid',
      'rootDisk',
      'facts',
      'wake',
    ]);
    const without = (row: string): string =>
      JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(row)).filter(([name]) => !changed.has(name))));
    const widened = {
      region: region.map(without),
      instance: instance.map(without),
      image: image.map(without),
      instanceType: instanceType.map(without),
      account: account.map(without),
      session: session.map(without),
      entry: entry.map(without),
      payment: payment.map(without),
      paymentRefund: paymentRefund.map(without),
    };
    expect({ ...kept, ...widened }).toEqual({
      ...rows,
      instance: rows['instance']?.map(without),
      region: rows['region']?.map(without),
    });
    expect(dueAct).not.toEqual([]);
    const added = [quarantine, regionUse, gpuUse, totp, recoveryCode, passkey, amortization, paymentClaim, watch];
    expect(added.flat()).toEqual([]);
    expect(migration).toEqual(migrations.map(({ name }) => expect.stringContaining(name)));
    const fresh = await open.empty();
    await (await openStore({ ...fresh, log: quietLog })).stop();
    expect(await querying(database, schemaOf)).toEqual(await querying(fresh, schemaOf));
  });

  test('is converted once, with a later index too; a repeated command changes nothing', async () => {
    const database = await before(`insert into migration values ('0048-booked-time-index', 1)`);
    await convert(database);
    const rows = await rowsOf(database);
    expect(await convert(database)).toEqual(['the database is already converted']);
    expect(await rowsOf(database)).toEqual(rows);
  });

  test('loses the browser sessions that no login and no key would end', async () => {
    const session = (hash: string, origin: string): string => `insert into "gatewayGrant"
      (hash, id, kind, "accountId", "instanceId", "openedAtMs", "expiresAtMs", "sessionId", "apiKeyId")
      values ('${hash}', '${hash}', 'session', 'ann', 'x', 1, 2, ${origin})`;
    const database = await before(session('none', 'null, null'), session('key', `null, 'a'`));
    await convert(database);
    const stored = await querying(database, (query) => query('select hash from "gatewayGrant" order by hash'));
    expect(stored.map(({ hash }) => hash)).toEqual(['h', 'key']);
  });

  test('is refused by a server, which names the command and leaves the data', async () => {
    const database = await before();
    const rows = await rowsOf(database);
    await expect(openStore({ ...database, log: quietLog })).rejects.toThrow('run `npm run admin -- convert`');
    expect(await rowsOf(database)).toEqual(rows);
  });

  for (const [what, change, message] of [
    [
      'lacks a migration',
      `delete from migration where name = '0025-scheduled-prices'`,
      'it lacks the migration "0025-',
    ],
    [
      'no server has started on',
      `delete from setting where name = 'billing.metered'`,
      'no server has completed a start',
    ],
    ['has uncounted accounts', 'update account set usage = null', 'no server has completed a start'],
    ['is of another version', `insert into migration values ('0030-mine', 1)`, 'has the migration "0030-mine"'],
  ] as const)
    test(`is left as it is if it ${what}`, async () => {
      const database = await before(change);
      const rows = await rowsOf(database);
      await expect(convert(database)).rejects.toThrow(message);
      expect(await rowsOf(database)).toEqual(rows);
    });

  test('must be there: an empty database is refused, and stays empty', async () => {
    const database = await open.empty();
    await expect(convert(database)).rejects.toThrow('This database is empty');
    expect(await rowsOf(database)).toEqual({});
  });
});

/** Converts a database of before 0.2, with 34 migrations, to `0001-schema`. Goes with 0.3. */
import { sql } from 'kysely';
import type { StoreLog } from '../store.ts';
import { appliedNames, type MigrationDb, type MigrationTarget } from './migrate.ts';

const SCHEMA = '0001-schema';
/** The last commit with these migrations. */
const LAST_BEFORE = '2e64b6fa';
export const namesBefore: readonly string[] = `
  0001-initial 0002-promised-disks 0003-runtimes 0004-disks-by-region 0005-variables 0006-changes
  0007-labels 0008-accounts 0009-key-limits 0010-catalog 0011-quotas 0012-drain 0013-audit
  0014-egress 0016-identities 0017-webhooks 0018-instance-type-index 0019-billing 0020-paid-time
  0021-notices 0022-prices 0023-payments 0024-budgets 0025-scheduled-prices 0026-regions
  0027-entry-index 0028-capacity-holders 0029-templates 0030-list-order 0033-time-zones
  0040-books-by-hour 0043-charged-starts 0044-webhook-backlog 0047-region-names`
  .trim()
  .split(/\s+/);

/** A late one, which a database may lack. */
const BOOKED_TIME_INDEX = '0048-booked-time-index';

/** Written by the first start of a server: the rows are metered, counted and sealed. */
const STARTED = ['billing.metered', 'secretsKeyId'];

/** Is one transaction: after an error it can be repeated. */
export const makeConvert =
  (log: Pick<StoreLog, 'info'>) =>
  (database: MigrationTarget): Promise<void> =>
    database.exclusively(async (db) => {
      const applied = await appliedNames(db);
      if (applied.includes(SCHEMA)) return log.info({}, 'the database is already converted');
      await refuseOthers(db, applied);
      await convertAccounts(db, database.kind);
      await convertIndexes(db);
      if (database.kind === 'postgres') await renameConstraints(db);
      // Browser sessions without a login or key: no end of one would end them.
      await sql`delete from "gatewayGrant" where "sessionId" is null and "apiKeyId" is null`.execute(db);
      await sql`insert into migration select ${SCHEMA}, max("appliedAtMs") from migration`.execute(db);
      await sql`delete from migration where name <> ${SCHEMA}`.execute(db);
      log.info({}, 'the database is converted');
    });

async function refuseOthers(db: MigrationDb, applied: readonly string[]): Promise<void> {
  if (applied.length === 0) throw new Error('This database is empty: there is nothing to convert. Start Berth.');
  const other = applied.find((name) => !namesBefore.includes(name) && name !== BOOKED_TIME_INDEX);
  if (other !== undefined)
    throw new Error(
      `This database has the migration "${other}", which no version before 0.2 has. Start the version that made it, or restore a backup.`,
    );
  const missing = namesBefore.find((name) => !applied.includes(name));
  if (missing === undefined && (await isStarted(db))) return;
  const why = missing === undefined ? 'no server has completed a start on it' : `it lacks the migration "${missing}"`;
  throw new Error(
    `This database can't be converted yet: ${why}. Check out the commit ${LAST_BEFORE}, the last before the conversion, start Berth there until it is ready, and stop it. Then convert with this version.`,
  );
}

async function isStarted(db: MigrationDb): Promise<boolean> {
  const { rows } = await sql`select name from setting where name in (${sql.join(STARTED)})`.execute(db);
  const uncounted = await sql`select id from account where usage is null limit 1`.execute(db);
  return rows.length === STARTED.length && uncounted.rows.length === 0;
}

/** Makes a column `not null`: each start counted what an account uses. */
async function convertAccounts(db: MigrationDb, kind: MigrationTarget['kind']): Promise<void> {
  const statements =
    kind === 'postgres'
      ? [sql`alter column usage set default '{}'`, sql`alter column usage set not null`]
      : [sql`rename column usage to "usageBefore"`, sql`add column usage text not null default '{}'`];
  for (const change of statements) await sql`alter table account ${change}`.execute(db);
  if (kind === 'postgres') return;
  await sql`update account set usage = "usageBefore"`.execute(db);
  await sql`alter table account drop column "usageBefore"`.execute(db);
}

async function convertIndexes(db: MigrationDb): Promise<void> {
  const booked = sql.raw(`"openedAtMs", quantity, "priceMicros", "chargedUntilMs", id) where "closedAtMs" is not null`);
  for (const [name, columns] of [
    ['usage_period_closed', '"accountId", "closedAtMs", meter, state'],
    ['usage_period_resource', '"accountId", "subjectId", meter, state, "closedAtMs"'],
  ] as const) {
    await sql`drop index ${sql.ref(name)}`.execute(db);
    await sql`create index ${sql.ref(name)} on "usagePeriod" (${sql.raw(columns)}, ${booked}`.execute(db);
  }
}

/** Names constraints of a table that was made under another name. */
async function renameConstraints(db: MigrationDb): Promise<void> {
  const { rows } = await sql<{ name: string }>`select conname as name from pg_constraint
    where conrelid = 'mount'::regclass and conname like 'mounts!_%' escape '!'`.execute(db);
  for (const { name } of rows)
    await sql`alter table mount rename constraint ${sql.ref(name)} to ${sql.ref(name.replace('mounts_', 'mount_'))}`.execute(
      db,
    );
}

/**
 * A migration has a name and runs once, in its own transaction, which also writes its name. It is a
 * file of SQL for each database, or a function. A step of two processes that start at once acquires
 * the engine's lock (BEGIN IMMEDIATE; a transaction-scoped advisory lock), then reads the applied
 * names. Names are never reused, and a released migration never changes: write a new one.
 */
import { readFile } from 'node:fs/promises';
import type { Kysely } from 'kysely';
import { sql } from 'kysely';
import type { StoreLog } from '../store.ts';

/** Untyped on purpose: a migration describes the tables of its day, not today's `Schema`. */
export type MigrationDb = Kysely<unknown>;

export interface Migration {
  name: string;
  up(db: MigrationDb, kind: 'sqlite' | 'postgres'): Promise<void>;
}

export interface MigrationTarget {
  kind: 'sqlite' | 'postgres';
  /** Runs `step` in a transaction, exclusively among all processes. */
  exclusively<T>(step: (db: MigrationDb) => Promise<T>): Promise<T>;
}

/** The statements of `migrations/NAME.<kind>.sql`; each ends with a semicolon and its line. */
export const fromFiles = (name: string): Migration => ({
  name,
  async up(db, kind) {
    const text = await readFile(new URL(`../migrations/${name}.${kind}.sql`, import.meta.url), 'utf8');
    for (const statement of text.trimEnd().split(/;\n|;$/)) if (statement !== '') await sql.raw(statement).execute(db);
  },
});

/** Applies missing migrations. Rejects when the database is newer than `migrations`. */
export async function migrate(
  database: MigrationTarget,
  migrations: readonly Migration[],
  log: StoreLog,
): Promise<void> {
  for (;;) {
    const name = await database.exclusively(async (db) => {
      const next = await firstPending(db, migrations);
      if (!next) return null;
      await next.up(db, database.kind);
      await sql`insert into migration (name, ${sql.ref('appliedAtMs')}) values (${next.name}, ${Date.now()})`.execute(
        db,
      );
      return next.name;
    });
    if (name === null) return;
    log.info({ migration: name }, 'the database was migrated');
  }
}

/** Names of the applied migrations, in order. */
export async function appliedNames(db: MigrationDb): Promise<string[]> {
  await db.schema
    .createTable('migration')
    .ifNotExists()
    .addColumn('name', 'text', (column) => column.primaryKey().notNull())
    .addColumn('appliedAtMs', 'bigint', (column) => column.notNull())
    .execute();
  const { rows } = await sql<{ name: string }>`select name from migration order by name`.execute(db);
  return rows.map(({ name }) => name);
}

/** The first migration of all versions before 0.2. */
const FIRST_BEFORE = '0001-initial';

async function firstPending(db: MigrationDb, migrations: readonly Migration[]): Promise<Migration | undefined> {
  const applied = await appliedNames(db);
  if (applied.includes(FIRST_BEFORE))
    throw new Error(
      'This database is of a version before 0.2. Make a backup, run `npm run admin -- convert` with the settings and as the user of the server, and start again.',
    );
  const known = migrations.map(({ name }) => name);
  const unknown = applied.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new Error(
      `This database is newer than this version of Berth: it has the migration "${unknown}", which this version does not have. ` +
        'Start the version that migrated the database, or a later version, or restore a backup made before the upgrade.',
    );
  }
  return migrations.find(({ name }) => !applied.includes(name));
}

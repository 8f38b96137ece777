/**
 * # Migrations
 *
 * A migration is a named function that runs once, in its own transaction, which also writes its
 * name. Two processes that start at once do not race: a step first acquires the engine's lock
 * (BEGIN IMMEDIATE; a transaction-scoped advisory lock), then reads the applied names. Names are
 * never reused and a released migration never changes: write a new one.
 */
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

async function firstPending(db: MigrationDb, migrations: readonly Migration[]): Promise<Migration | undefined> {
  await db.schema
    .createTable('migration')
    .ifNotExists()
    .addColumn('name', 'text', (column) => column.primaryKey().notNull())
    .addColumn('appliedAtMs', 'bigint', (column) => column.notNull())
    .execute();
  const { rows } = await sql<{ name: string }>`select name from migration order by name`.execute(db);
  const applied = new Set(rows.map((row) => row.name));
  const names = new Set(migrations.map((migration) => migration.name));
  const unknown = rows.find((row) => !names.has(row.name));
  if (unknown) {
    throw new Error(
      `This database is newer than this version of Berth: it has the migration "${unknown.name}", which this version does not have. ` +
        'Start the version that migrated the database, or a later version, or restore a backup made before the upgrade.',
    );
  }
  return migrations.find((migration) => !applied.has(migration.name));
}

/** SQLite's plan for a query: by index, or by scan. */
import type { CompiledQuery } from 'kysely';
import { DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely';
import type { Schema } from '../../../src/store/db/schema.ts';
import type { Db, Store } from '../../../src/store/store.ts';

/** Statements of `ask`, compiled for SQLite and not run. */
async function statementsOf(ask: (db: Db) => Promise<unknown>): Promise<CompiledQuery[]> {
  const queries: CompiledQuery[] = [];
  const dialect = {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db: Kysely<unknown>) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
  await ask(new Kysely<Schema>({ dialect, log: ({ query }) => void queries.push(query) }));
  return queries;
}

/** A line per step of each statement. */
export async function howSqliteReads(store: Store, ask: (db: Db) => Promise<unknown>): Promise<string[]> {
  const lines: string[] = [];
  for (const query of await statementsOf(ask)) {
    const explain = { ...query, sql: `explain query plan ${query.sql}` };
    const { rows } = await store.read.executeQuery<{ detail: string }>(explain);
    lines.push(...rows.map(({ detail }) => detail));
  }
  return lines;
}

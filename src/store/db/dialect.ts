/** Differences between SQLite and PostgreSQL in a query. */
import { sql, type RawBuilder, type SqlBool } from 'kysely';
import type { Db } from '../store.ts';

export const isSqlite = (db: Db): boolean => db.getExecutor().adapter.supportsMultipleConnections === false;

/**
 * Locks the selected rows until the transaction ends, as an update of no key does, without writing
 * a version of each. A write of SQLite is alone.
 */
export const locking = <Query extends { forNoKeyUpdate(): Query }>(tx: Db, query: Query): Query =>
  isSqlite(tx) ? query : query.forNoKeyUpdate();

/** The same for the rows of one statement, by id, so that two such statements never cross. */
export const lockedById = (tx: Db, table: string, which: RawBuilder<SqlBool>): RawBuilder<SqlBool> =>
  isSqlite(tx) ? which : sql`id in (select id from ${sql.table(table)} where ${which} order by id for no key update)`;

/** Rows as a table `new`, from one parameter: many would take longer to build than to run. */
export function newRows<Row extends object>(
  db: Db,
  rows: readonly Row[],
  columns: Readonly<Record<Extract<keyof Row, string>, 'bigint' | 'text'>>,
): RawBuilder<unknown> {
  const json = JSON.stringify(rows);
  const names = Object.entries(columns);
  if (!isSqlite(db)) {
    const typed = names.map(([name, type]) => sql`${sql.ref(name)} ${sql.raw(String(type))}`);
    return sql`json_to_recordset(${json}::json) as new(${sql.join(typed)})`;
  }
  const read = names.map(([name]) => sql`value ->> ${sql.lit(name)} as ${sql.ref(name)}`);
  return sql`(select ${sql.join(read)} from json_each(${json})) as new`;
}

/** Function of a text and a part of it: the position from 1, or 0. */
export const positionIn = (db: Db): RawBuilder<unknown> => (isSqlite(db) ? sql`instr` : sql`strpos`);

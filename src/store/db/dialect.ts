/** Differences between SQLite and PostgreSQL in a query. */
import { sql, type RawBuilder } from 'kysely';
import type { Db } from '../store.ts';

export const isSqlite = (db: Db): boolean => db.getExecutor().adapter.supportsMultipleConnections === false;

/** Function of a text and a part of it: the position from 1, or 0. */
export const positionIn = (db: Db): RawBuilder<unknown> => (isSqlite(db) ? sql`instr` : sql`strpos`);

/**
 * # The store
 *
 * The only room with SQL. Two engines, one set of queries: embedded SQLite (`node:sqlite`) and PostgreSQL (`pg`), both through Kysely.
 * Queries are functions in files named for their table; each takes a `Db`, which is `store.read` or the transaction of a `write`.
 */
import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

export type Db = Kysely<Schema>;

export interface Store {
  readonly kind: 'sqlite' | 'postgres';
  /** Committed state only; never waits for a writer. */
  readonly read: Db;
  /**
   * Runs `work` in a transaction and answers once it is durable (fsync). Throwing rolls back this work and nothing else.
   * On SQLite the works of one event-loop turn share one commit, a savepoint each (at most 64, at most 2 ms): so `work` must do
   * nothing but queries of its `tx`, and wait for nothing else.
   */
  write<T>(work: (tx: Db) => Promise<T>): Promise<T>;
  /** The account's `version`, committed; the cheapest question there is. 0 for an unknown account. */
  versionOf(accountId: string): number | Promise<number>;
  /** Rejects when the database does not answer. */
  ping(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * # The store
 *
 * The only room with SQL. Two engines, one set of queries: embedded SQLite (`node:sqlite`) and PostgreSQL (`pg`), both through Kysely.
 * Queries are functions in files named for their table; each takes a `Db`, which is `store.read` or the transaction of a `write`.
 */
import type { Kysely } from 'kysely';
import type { Schema } from './schema.ts';

export type Db = Kysely<Schema>;

/** What the store tells; a pino logger fits. */
export interface StoreLog {
  info(facts: object, text: string): void;
  warn(facts: object, text: string): void;
  error(facts: object, text: string): void;
}

export interface Store {
  readonly kind: 'sqlite' | 'postgres';
  /** Committed state only; never waits for a writer. */
  readonly read: Db;
  /**
   * Runs `work` in a transaction and answers once it is durable (fsync). Throwing rolls back this work and nothing else.
   * On SQLite the works of one event-loop turn share one commit, a savepoint each (at most 64, at most 2 ms): so `work` must do
   * nothing but queries of its `tx`, and wait for nothing else. On PostgreSQL it is a transaction of its own, READ COMMITTED, and
   * run again when two got in each other's way: so `work` may run more than once, and a statement that failed ends it there
   * (use `on conflict do nothing`, not a catch).
   */
  write<T>(work: (tx: Db) => Promise<T>): Promise<T>;
  /** The account's `version`, committed; the cheapest question there is. 0 for an unknown account. */
  versionOf(accountId: string): number | Promise<number>;
  /** Rejects when the database does not answer. */
  ping(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * # The store
 *
 * The only room with SQL. Two engines, one set of queries: embedded SQLite (`node:sqlite`) and PostgreSQL (`pg`), both through Kysely.
 * Queries are functions in files named for their table; each takes a `Db`, which is `store.read` or the transaction of a `write`.
 *
 * ## The order of locks
 * On PostgreSQL a row that was written, or held by a write that changes nothing, is locked until the transaction ends. Two that lock the
 * same rows wait for each other in vain unless both go through the tables in one order, and it is this one:
 *
 *     stray, image, volume, node port, instance, region, instances in line, disk, pool, account, what is an account's (sessions, keys, grants)
 *
 * and rows of one table by id. A new row is seen by nobody before the commit and stands outside the order: an adoption inserts the
 * instance that its node ports refer to first, a launch its own last. So do the node ports that an instance gives back: who deletes
 * its own waits for nobody. The key of an idempotent request is claimed before or after the account: only the same request sent twice
 * waits for it, and both do as the other.
 *
 * What one statement locks (all instances of an account, all mounters of a volume) and node ports, which are drawn at random, can't be
 * put in order. Where such two cross, PostgreSQL ends one of them, and `write` runs it again: the order saves that wait of a second.
 */
import type { Kysely } from 'kysely';
import type { Schema } from './db/schema.ts';

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

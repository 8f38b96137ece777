/**
 * # The store
 *
 * The only module with SQL. Two engines, one set of queries: embedded SQLite (`node:sqlite`) and
 * PostgreSQL (`pg`), both through Kysely. Queries are functions in files named for their table;
 * each takes a `Db`: `store.read` or the transaction of a `write`.
 *
 * ## The order of locks
 *
 * On PostgreSQL a row stays locked from its update, or its lock, until the transaction ends. Two
 * transactions that lock the same rows deadlock unless both follow one order of tables:
 *
 *     orphan, image, volume, node port, instance, region, queued instances, disk, pool, account,
 *     resources of an account (sessions, keys, grants)
 *
 * and rows of one table by id. A new row is invisible before the commit and outside the order: an
 * adoption inserts the instance before its node ports, a launch inserts the instance last.
 * Released node ports are outside too: deleting own rows waits for nobody. The key of an
 * idempotent request may come before or after the account: only the same request sent twice waits
 * for the key, and both take the same order.
 *
 * Heartbeats and rows made due are locked by id (`lockedById`). Rows locked by another single
 * statement (all instances of an account, all mounters of a volume) and node ports, drawn at
 * random, are not ordered. PostgreSQL ends one of two such transactions that cross, and `write`
 * runs that one again: the order saves that wait of a second.
 */
import type { Kysely } from 'kysely';
import type { Schema } from './db/schema.ts';

export type Db = Kysely<Schema>;

export interface StoreLog {
  info(facts: object, text: string): void;
  warn(facts: object, text: string): void;
  error(facts: object, text: string): void;
}

export interface Store {
  readonly kind: 'sqlite' | 'postgres';
  readonly read: Db;
  /**
   * Runs `work` in a transaction and resolves once durable (fsync). Throwing rolls back this work
   * alone. On SQLite the works of one event-loop turn share a commit, each in a savepoint: `work`
   * must await nothing but queries of its `tx`. On PostgreSQL each work is a READ COMMITTED
   * transaction, run again after a conflict: `work` may run more than once, and a failed statement
   * ends the transaction (use `on conflict do nothing`, not a catch).
   */
  write<T>(work: (tx: Db) => Promise<T>): Promise<T>;
  /** Committed `version` of the account; 0 for an unknown account. The cheapest query there is. */
  versionOf(accountId: string): number | Promise<number>;
  /** Calls `listener` after each commit. Absent on PostgreSQL, where other processes may commit. */
  onCommit?(listener: () => void): void;
  /** Fails queries under way, after a silent loss of the server. Absent on SQLite. */
  dropConnections?(): void;
  /** Rejects when the database does not answer. */
  ping(): Promise<void>;
  stop(): Promise<void>;
}

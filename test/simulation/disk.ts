/**
 * Disk of a simulated server: real SQLite on real files. Node's SQLite calls on the writing
 * connection are intercepted, to fail commits and to crash before or after one. A crash keeps the
 * durable state only: the current files if the connection syncs its log, else the files at its
 * start.
 */
import { copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

/** Called before SQLite. An error skips the SQLite call. */
export interface Watcher {
  write(table: string): void;
  /** An operation has ended and joined its group commit. */
  released(writer: DatabaseSync): void;
  rolledBack(): void;
  /** `commit` makes the group durable. The watcher may skip the call, or throw after it. */
  commit(commit: () => void): void;
}

const watchers = new Map<string, Watcher>();
const writers = new Map<string, DatabaseSync>();
const opened = new Map<string, Set<DatabaseSync>>();
/** Most statements on these tables only move leases and due times. */
const LEASED = new Set(['instance', 'volume', 'snapshot', 'image']);
const OF_LEASES_ALONE = /^\s*(?:with .*)?update (?!.*"(?:publicText|listed|revision|state)")/is;
const CHANGE = /\b(?:insert into|update|delete from)\s+"?(\w+)"?/i;

/** Call once per thread. */
export function watchDatabases(): void {
  const { prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.prepare = function prepareWatched(this: DatabaseSync, sql, ...more) {
    const statement = prepare.call(this, sql, ...more);
    const file = this.location() ?? '';
    const watcher = watchers.get(file);
    if (!watcher) return statement;
    opened.set(file, (opened.get(file) ?? new Set()).add(this));
    const around = (fn: (run: () => unknown) => unknown): void => {
      const watched = <Verb extends (...given: never[]) => unknown>(verb: Verb): Verb =>
        new Proxy(verb, { apply: (target, _, given) => fn(() => Reflect.apply(target, statement, given)) });
      statement.run = watched(statement.run);
      statement.all = watched(statement.all);
    };
    if (sql === 'begin immediate') writers.set(file, this);
    if (sql === 'commit') around((run) => watcher.commit(() => void run()));
    else if (sql === 'release work') {
      around((run) => {
        const done = run();
        watcher.released(this);
        return done;
      });
    } else if (sql === 'rollback') {
      around((run) => {
        watcher.rolledBack();
        return run();
      });
    } else {
      const table = CHANGE.exec(sql)?.[1];
      if (table !== undefined) {
        const reported = LEASED.has(table) && OF_LEASES_ALONE.test(sql) ? `lease of ${table}` : table;
        around((run) => {
          watcher.write(reported);
          return run();
        });
      }
    }
    return statement;
  };
}

const FULL = 2;

export class Disk {
  readonly #folder: string;
  #file: string;
  #serial = 0;
  /** Files to fall back to when the connection does not sync. */
  #synced: string | null = null;

  constructor(folder: string, template: Uint8Array) {
    this.#folder = folder;
    this.#file = this.#next();
    writeFileSync(this.#file, template);
  }

  get file(): string {
    return this.#file;
  }

  watch(watcher: Watcher): void {
    watchers.set(this.#file, watcher);
  }

  /** Call after the server opened the database. */
  opened(): void {
    const writer = writers.get(this.#file);
    const mode = writer?.prepare('pragma synchronous').get()?.['synchronous'];
    const journal = writer?.prepare('pragma journal_mode').get()?.['journal_mode'];
    if (journal === 'wal' && typeof mode === 'number' && mode >= FULL) return;
    this.#synced = this.#copy();
  }

  /**
   * Moves the durable state to a new file. Returns a function that removes the old files, to be
   * called when the process is idle.
   */
  crash(): () => void {
    const old = this.#file;
    const databases = opened.get(old) ?? [];
    opened.delete(old);
    watchers.delete(old);
    writers.delete(old);
    this.#file = this.#synced ?? this.#copy();
    this.#synced = null;
    return () => {
      for (const database of databases) if (database.isOpen) database.close();
      for (const end of ['', '-wal', '-shm']) rmSync(`${old}${end}`, { force: true });
    };
  }

  remove(): void {
    this.crash()();
    for (const end of ['', '-wal', '-shm']) rmSync(`${this.#file}${end}`, { force: true });
  }

  #copy(): string {
    const copy = this.#next();
    copyFileSync(this.#file, copy);
    try {
      copyFileSync(`${this.#file}-wal`, `${copy}-wal`);
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    }
    return copy;
  }

  #next(): string {
    return `${this.#folder}/disk-${this.#serial++}.db`;
  }
}

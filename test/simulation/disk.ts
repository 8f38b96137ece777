/**
 * The disk of a simulated server: real SQLite on real files. What is done through its writing connection is watched where Node hands it
 * to SQLite, so that commits can fail, and crashes can come before and after them. A crash leaves what had been made durable and no
 * more: if the connection syncs its log with each commit, that is the files as they stand; if not, what they were at its start.
 */
import { copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

/** What happens on the writing connection. Each may throw, and then SQLite is not asked. */
export interface Watcher {
  /** A statement that changes this table. */
  write(table: string): void;
  /** A work has ended and is part of its group. */
  released(writer: DatabaseSync): void;
  rolledBack(): void;
  /** `commit` makes it durable; called not at all, once, or once and then throws. */
  commit(commit: () => void): void;
}

const watchers = new Map<string, Watcher>();
const writers = new Map<string, DatabaseSync>();
const opened = new Map<string, Set<DatabaseSync>>();
/** Of these tables most statements only move leases and due times, of which nobody but the passes takes note. */
const LEASED = new Set(['instance', 'volume', 'snapshot', 'image']);
const OF_LEASES_ALONE = /^\s*(?:with .*)?update (?!.*"(?:publicText|listed|state)")/is;
const CHANGE = /\b(?:insert into|update|delete from)\s+"?(\w+)"?/i;

/** Once in each thread. */
export function watchDatabases(): void {
  const { prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.prepare = function prepareWatched(this: DatabaseSync, sql, ...more) {
    const statement = prepare.call(this, sql, ...more);
    const file = this.location() ?? '';
    const watcher = watchers.get(file);
    if (!watcher) return statement;
    opened.set(file, (opened.get(file) ?? new Set()).add(this));
    const around = (deed: (run: () => unknown) => unknown): void => {
      const watched = <Verb extends (...given: never[]) => unknown>(verb: Verb): Verb =>
        new Proxy(verb, { apply: (target, _, given) => deed(() => Reflect.apply(target, statement, given)) });
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
        const told = LEASED.has(table) && OF_LEASES_ALONE.test(sql) ? `lease of ${table}` : table;
        around((run) => {
          watcher.write(told);
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
  /** What a connection that does not sync would fall back to. */
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

  /** To be called once the server has opened it. */
  opened(): void {
    const writer = writers.get(this.#file);
    const mode = writer?.prepare('pragma synchronous').get()?.['synchronous'];
    const journal = writer?.prepare('pragma journal_mode').get()?.['journal_mode'];
    if (journal === 'wal' && typeof mode === 'number' && mode >= FULL) return;
    this.#synced = this.#copy();
  }

  /** What is left of it goes on under another name; answers what closes and removes the old files, for when nothing is awake. */
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

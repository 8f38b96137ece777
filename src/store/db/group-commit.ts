/**
 * # Group commit
 *
 * An fsync costs more than the statements of a write, so writes share one. The first write of an
 * empty queue opens a group once the present turn of the event loop is done (`setImmediate`): a
 * lone write waits for nothing else. A group is
 *
 *     BEGIN IMMEDIATE · each work: SAVEPOINT, work, RELEASE (or ROLLBACK TO) · COMMIT · settle all
 *
 * and closes at 64 works or 8 ms of work, whichever is first: the event loop turns between groups,
 * and writes that arrive during the fsync form the next group. Works run one after another, so a
 * work waits for nothing but its own queries.
 * - A work that throws loses its own savepoint and nothing else. Its promise settles after the
 * commit too: the work may have judged by rows of a neighbour in the group.
 * - An error that makes SQLite roll back by itself (disk full, I/O) or a failed COMMIT rejects the
 * whole group.
 * - On a full disk the works run again if the space reserve is released; else they are refused.
 * - After an I/O error nothing may be retried: the kernel has dropped the pages it could not write
 * and a second fsync would succeed without them. Every further write is refused until the process
 * restarts and reads the log from disk.
 */
import { storageFull } from '../../domain/kernel/refusal.ts';
import { errcodeOf, isStorageFull } from './errors.ts';
import type { StoreLog } from '../store.ts';

export interface GroupStatements {
  begin(): void;
  savepoint(): void;
  release(): void;
  rollbackTo(): void;
  commit(): void;
  rollback(): void;
  isOpen(): boolean;
}

/** Queries through `tx` after `end` are refused. */
export interface ScopedTransaction<Tx> {
  tx: Tx;
  end(): void;
}

/** Clock and task queue. A simulation's own decides which writes share a commit. */
export interface StoreScheduler {
  /** Runs `fn` after the present turn of the event loop. */
  defer(fn: () => void): void;
  /** Monotonic milliseconds. */
  elapsed(): number;
  /** Runs `fn` once, without keeping the process alive. Returns a function that cancels. */
  after(ms: number, fn: () => void): () => void;
  /** Whether long work may run on another thread. */
  threads: boolean;
}

export const systemScheduler: StoreScheduler = {
  defer: (fn) => void setImmediate(fn),
  elapsed: () => performance.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms).unref();
    return () => clearTimeout(timer);
  },
  threads: true,
};

interface Job<Tx> {
  work: (tx: Tx) => Promise<unknown>;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

type Outcome = { ok: true; value: unknown } | { ok: false; error: unknown };

const MAX_WORKS = 64;
const MAX_GROUP_MS = 8;
const STUCK_MS = 5_000;
const SQLITE_IOERR = 10;

const isFull = (outcome: Outcome | undefined): boolean =>
  outcome !== undefined && !outcome.ok && isStorageFull(outcome.error);
const refusalOf = (error: unknown): unknown => (isStorageFull(error) ? storageFull() : error);

export class GroupCommit<Tx> {
  readonly #statements: GroupStatements;
  readonly #openScope: () => ScopedTransaction<Tx>;
  readonly #onCommit: (works: number) => Promise<void> | void;
  readonly #releaseSpace: () => boolean;
  readonly #log: StoreLog;
  readonly #scheduler: StoreScheduler;
  #queue: Job<Tx>[] = [];
  #running = false;
  #stopped = false;
  #broken: Error | undefined;
  #whenIdle: (() => void)[] = [];

  constructor(parts: {
    statements: GroupStatements;
    openScope: () => ScopedTransaction<Tx>;
    /** Called between groups, after the group's promises settled. The next group waits for it. */
    onCommit: (works: number) => Promise<void> | void;
    /** `SpaceReserve.release`. */
    releaseSpace: () => boolean;
    log: StoreLog;
    scheduler: StoreScheduler;
  }) {
    this.#statements = parts.statements;
    this.#openScope = parts.openScope;
    this.#onCommit = parts.onCommit;
    this.#releaseSpace = parts.releaseSpace;
    this.#log = parts.log;
    this.#scheduler = parts.scheduler;
  }

  get broken(): Error | undefined {
    return this.#broken;
  }

  write<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#broken) return reject(this.#broken);
      if (this.#stopped) return reject(new Error('The store has stopped and accepts no more writes.'));
      this.#queue.push({ work, resolve: (value) => resolve(value as T), reject });
      this.#wake();
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#running) await new Promise<void>((resolve) => this.#whenIdle.push(resolve));
  }

  #wake(): void {
    if (this.#running) return;
    this.#running = true;
    this.#scheduler.defer(() => void this.#runGroups());
  }

  async #runGroups(): Promise<void> {
    await this.#group();
    if (this.#queue.length > 0) {
      this.#scheduler.defer(() => void this.#runGroups());
      return;
    }
    this.#running = false;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  async #group(): Promise<void> {
    const statements = this.#statements;
    const taken: Job<Tx>[] = [];
    const outcomes: Outcome[] = [];
    let lost: { error: unknown } | undefined;
    const cancel = this.#scheduler.after(STUCK_MS, () => {
      this.#log.error(
        { stuckMs: STUCK_MS },
        'a write waits for something other than its own queries and blocks all other writes',
      );
    });
    try {
      statements.begin();
      const closesAtMs = this.#scheduler.elapsed() + MAX_GROUP_MS;
      do {
        const job = this.#queue.shift();
        if (!job) break;
        taken.push(job);
        outcomes.push(await this.#run(job));
      } while (taken.length < MAX_WORKS && statements.isOpen() && this.#scheduler.elapsed() < closesAtMs);
      if (statements.isOpen()) statements.commit();
      else lost = { error: failureOf(outcomes) };
    } catch (error) {
      lost = { error };
    } finally {
      cancel();
    }
    if (lost) {
      if (taken.length === 0) taken.push(...this.#queue.splice(0, MAX_WORKS));
      this.#lose(lost.error);
      if (isStorageFull(lost.error) && !this.#broken && this.#releaseSpace()) return this.#repeat(taken);
      for (const [i, job] of taken.entries()) {
        const outcome = outcomes[i];
        job.reject(refusalOf(outcome && !outcome.ok ? outcome.error : lost.error));
      }
      if (this.#broken) for (const job of this.#queue.splice(0)) job.reject(this.#broken);
      return;
    }
    const repeated = outcomes.some(isFull) && this.#releaseSpace() ? taken.filter((_, i) => isFull(outcomes[i])) : [];
    for (const [i, job] of taken.entries()) {
      const outcome = outcomes[i];
      if (!outcome || repeated.includes(job)) continue;
      if (outcome.ok) job.resolve(outcome.value);
      else job.reject(refusalOf(outcome.error));
    }
    this.#repeat(repeated);
    const pause = this.#onCommit(taken.length);
    if (pause) await pause;
  }

  /** Puts works that left nothing first in the queue. */
  #repeat(jobs: readonly Job<Tx>[]): void {
    this.#queue.unshift(...jobs);
  }

  async #run(job: Job<Tx>): Promise<Outcome> {
    const statements = this.#statements;
    statements.savepoint();
    const scope = this.#openScope();
    try {
      const value = await job.work(scope.tx);
      if (statements.isOpen()) statements.release();
      return { ok: true, value };
    } catch (error) {
      if (statements.isOpen()) {
        statements.rollbackTo();
        statements.release();
      }
      return { ok: false, error };
    } finally {
      scope.end();
    }
  }

  #lose(cause: unknown): void {
    const code = errcodeOf(cause);
    if (code !== undefined && (code & 0xff) === SQLITE_IOERR && !isStorageFull(cause)) {
      this.#broken = new Error(
        'The disk failed during the sync of a write, so Berth writes nothing more: ' +
          'check the disk of the data folder, then start Berth again. Everything that was answered before is stored.',
        { cause },
      );
      this.#log.error({ err: cause }, this.#broken.message);
    }
    if (!this.#statements.isOpen()) return;
    try {
      this.#statements.rollback();
    } catch (error) {
      this.#broken ??= new Error('A failed write could not be rolled back; start Berth again.', { cause: error });
      this.#log.error({ err: error }, this.#broken.message);
    }
  }
}

function failureOf(outcomes: Outcome[]): unknown {
  for (const outcome of outcomes.toReversed()) if (!outcome.ok) return outcome.error;
  return new Error('The transaction of this write was rolled back.');
}

/**
 * # Checkpoints
 *
 * A checkpoint copies the write-ahead log into the database file and syncs it: milliseconds to tens of them, and by SQLite's default
 * it happens inside the commit that crosses a mark. Here a worker thread with a connection of its own does it (PASSIVE: it waits for
 * nobody and nobody for it) after so many writes, or some seconds after the last ones. The thread starts when the first is due, so
 * an idle server has none.
 *
 * Under writes that never pause, a PASSIVE checkpoint never catches up: the log goes on growing while it copies, and only a log
 * copied to its end is begun anew. So when the log is long, what little is left of it is copied between two groups on the
 * writer's thread.
 */
import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';
import type { StoreLog } from './store.ts';

/** A commit writes some pages whatever is in it, and a few more for each work: about 8 MB of log. */
const AFTER_WEIGHT = 512;
const WEIGHT_OF_COMMIT = 4;
const AFTER_MS = 2_000;
/** 8 KB pages: 16 MiB. */
const LONG_LOG_PAGES = 2_048;

/** What the worker answers: pages in the log, pages of it copied. */
export interface CheckpointReport {
  logPages: number;
  copiedPages: number;
}

const isReport = (value: unknown): value is CheckpointReport =>
  typeof value === 'object' && value !== null && 'logPages' in value && 'copiedPages' in value;

export class Checkpoints {
  readonly #file: string;
  readonly #writer: DatabaseSync;
  readonly #log: StoreLog;
  #worker: Worker | undefined;
  #weight = 0;
  #timer: NodeJS.Timeout | undefined;
  #busy = false;
  #finishNow = false;

  constructor(parts: { file: string; writer: DatabaseSync; log: StoreLog }) {
    this.#file = parts.file;
    this.#writer = parts.writer;
    this.#log = parts.log;
  }

  /** Tells of a commit; called between two groups. */
  committed(works: number): void {
    this.#weight += WEIGHT_OF_COMMIT + works;
    if (this.#finishNow) {
      this.#finishNow = false;
      this.#writer.exec('pragma wal_checkpoint(passive)');
    }
    if (this.#busy) return;
    if (this.#weight >= AFTER_WEIGHT) this.#ask();
    else this.#timer ??= setTimeout(() => this.#ask(), AFTER_MS).unref();
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    const worker = this.#worker;
    this.#worker = undefined;
    if (!worker) return;
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    worker.ref();
    worker.postMessage('stop');
    await ended;
  }

  #ask(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#weight = 0;
    this.#busy = true;
    this.#worker ??= this.#start();
    this.#worker.postMessage('checkpoint');
  }

  #start(): Worker {
    const worker = new Worker(new URL('./checkpoint-thread.ts', import.meta.url), {
      workerData: this.#file,
      resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4 },
    });
    worker.unref();
    worker.on('message', (report: unknown) => {
      this.#busy = false;
      if (!isReport(report)) return;
      this.#finishNow = report.logPages > LONG_LOG_PAGES;
      // What was written meanwhile is in the log still: it is looked at again when the writes have paused.
      if (report.copiedPages < report.logPages) this.#timer ??= setTimeout(() => this.#ask(), AFTER_MS).unref();
    });
    worker.on('error', (error) => {
      this.#log.error({ err: error }, 'a checkpoint failed; the log grows until the next one');
      this.#worker = undefined;
      this.#busy = false;
    });
    return worker;
  }
}

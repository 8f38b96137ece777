/** Thread of `checkpoint.ts`: one connection, PASSIVE checkpoints per message, closed by `stop`. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { CheckpointReport } from './checkpoint.ts';

const LITTLE_PAGES = 128;
const MAX_ROUNDS = 4;

if (!parentPort || typeof workerData !== 'string') throw new Error('This file is the thread of checkpoint.ts.');
const port = parentPort;
const database = new DatabaseSync(workerData, { timeout: 0 });
database.exec('pragma synchronous = full');
// Small: a checkpoint copies pages from the log past the cache.
database.exec('pragma cache_size = -256');
const checkpoint = database.prepare('pragma wal_checkpoint(passive)');

port.on('message', (message: unknown) => {
  if (message === 'stop') {
    database.close();
    port.close();
    return;
  }
  // The next round copies pages written during this one, until the writer can finish the rest.
  let report: CheckpointReport;
  let rounds = 0;
  do {
    const row = checkpoint.get();
    report = { logPages: Number(row?.['log'] ?? 0), copiedPages: Number(row?.['checkpointed'] ?? 0) };
  } while (report.logPages - report.copiedPages > LITTLE_PAGES && ++rounds < MAX_ROUNDS);
  port.postMessage(report);
});

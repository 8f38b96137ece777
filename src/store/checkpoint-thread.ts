/** The thread of `checkpoint.ts`: one connection, one PASSIVE checkpoint for each message, closed by `stop`. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { CheckpointReport } from './checkpoint.ts';

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
  const row = checkpoint.get();
  const report: CheckpointReport = { logPages: Number(row?.['log'] ?? 0), copiedPages: Number(row?.['checkpointed'] ?? 0) };
  port.postMessage(report);
});

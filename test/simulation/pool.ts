/** Hands cases to a few threads, each of which runs one after another. */
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Outcome } from './run.ts';

export interface Told extends Outcome {
  name: string;
}

/** What a thread is told, and what it tells. */
export interface Question {
  name: string;
  /** Also when nothing was wrong: a trace is long. */
  withTrace: boolean;
}

/** In the order in which they end; `hear` answers whether to go on. */
export async function runAll(
  names: Iterable<string>,
  hear: (told: Told) => boolean,
  {
    threads = availableParallelism(),
    withTrace = false,
    worker: module = new URL('./worker.ts', import.meta.url),
  } = {},
): Promise<void> {
  const left = names[Symbol.iterator]();
  let goOn = true;
  await Promise.all(Array.from({ length: threads }, () => work()));

  async function work(): Promise<void> {
    const worker = new Worker(module);
    try {
      for (let next = left.next(); goOn && !next.done; next = left.next()) {
        const name = next.value;
        worker.postMessage({ name, withTrace } satisfies Question);
        goOn = hear({ name, ...(await answerOf(worker, name)) }) && goOn;
      }
      worker.postMessage(null);
      await new Promise((resolve) => worker.once('exit', resolve));
    } finally {
      await worker.terminate();
    }
  }
}

function answerOf(worker: Worker, name: string): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const quit = (code: unknown): void => reject(new Error(`the thread ended with ${String(code)} in the run ${name}`));
    worker.once('exit', quit);
    worker.once('error', reject);
    worker.once('message', (outcome: Outcome) => {
      worker.off('exit', quit).off('error', reject);
      resolve(outcome);
    });
  });
}

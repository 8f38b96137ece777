/**
 * A pool of worker threads for cases, one for each core. A thread loads the whole server, so it is
 * reused until `stopThreads`. Calls of `runAll` at the same time share the threads.
 */
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { makeSemaphore } from '../../src/async/semaphore.ts';
import type { Outcome } from './run.ts';

export interface CaseResult extends Outcome {
  name: string;
}

export interface CaseRequest {
  name: string;
  /** Default: failed runs only; traces are long. */
  withTrace: boolean;
}

const ownModule = new URL('./worker.ts', import.meta.url);
/** Unused threads of `ownModule`. */
const idle: Worker[] = [];
const cores = makeSemaphore(availableParallelism());

/**
 * Results arrive in order of completion; `onResult` returns whether to continue. All cases of one
 * of the `threads` run in the same thread.
 */
export async function runAll(
  names: Iterable<string>,
  onResult: (message: CaseResult) => boolean,
  { threads = availableParallelism(), withTrace = false, worker: module = ownModule } = {},
): Promise<void> {
  const left = names[Symbol.iterator]();
  let goOn = true;
  await Promise.all(Array.from({ length: threads }, () => cores.run(work)));

  async function work(): Promise<void> {
    const isOwn = module === ownModule;
    const worker = (isOwn ? idle.pop() : undefined) ?? new Worker(module);
    try {
      for (let next = left.next(); goOn && !next.done; next = left.next()) {
        const name = next.value;
        worker.postMessage({ name, withTrace } satisfies CaseRequest);
        goOn = onResult({ name, ...(await answerOf(worker, name)) }) && goOn;
      }
    } catch (error) {
      await worker.terminate();
      throw error;
    }
    if (isOwn) idle.push(worker);
    else await stop(worker);
  }
}

/** Stops the threads, which remove their databases. */
export async function stopThreads(): Promise<void> {
  await Promise.all(idle.splice(0).map(stop));
}

async function stop(worker: Worker): Promise<void> {
  const ended = new Promise((resolve) => worker.once('exit', resolve));
  worker.postMessage(null);
  await ended;
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

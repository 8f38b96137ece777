/** Reports the progress of a pull or push to a row, about once a second, one write at a time. */
import { amountOf, type Progress } from '../../../domain/compute/operation.ts';
import type { ImageProgress } from '../../../engines/contract.ts';
import type { Observed } from '../../../domain/compute/instance.ts';
import { diagnosisFields } from '../../../domain/compute/plan.ts';

const INTERVAL_MS = 1_000;

export interface ProgressReporter {
  onProgress: (progress: ImageProgress) => void;
  /** Waits for the last write, drops later progress, and returns the last progress. */
  finish: () => Promise<Progress | null>;
}

export function makeProgressReporter(
  elapsed: () => number,
  write: (message: string, progress: Progress) => Promise<unknown>,
): ProgressReporter {
  let lastWriteMs = -Infinity;
  let last: Progress | null = null;
  let writing: Promise<unknown> = Promise.resolve();
  // An engine may report an aborted call, which must not overwrite later state.
  let finished = false;
  return {
    onProgress({ text, ...progress }) {
      if (finished) return;
      last = progress;
      if (elapsed() - lastWriteMs < INTERVAL_MS) return;
      lastWriteMs = elapsed();
      writing = writing.then(() => write(`${text} ${amountOf(progress)}`, progress)).catch(() => {});
    },
    async finish() {
      finished = true;
      await writing;
      return last;
    },
  };
}

/** Reports the progress of a pull or push to an instance. */
export const makeInstanceProgressReporter = (
  elapsed: () => number,
  write: (observed: Partial<Observed>) => Promise<void>,
): ProgressReporter =>
  makeProgressReporter(elapsed, (message, progress) => write({ message, progress, ...diagnosisFields('', '') }));

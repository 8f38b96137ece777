/** How far a pull or a push is, written to the row about once a second, one write after the other. */
import type { Observed } from '../../domain/instance.ts';
import { amountOf, type Progress } from '../../domain/operation.ts';
import { diagnosisFields } from '../../domain/plan.ts';
import type { ImageProgress } from '../../engines/contract.ts';
import { note, type Work } from '../instances/work.ts';

const EVERY_MS = 1_000;

export interface ProgressReporter {
  onProgress: (progress: ImageProgress) => void;
  /** Answers what was told last, once all that was told is written, or was dropped because the row is another's. */
  finish: () => Promise<Progress | null>;
}

/** `write` is given what is done, as text with its amount, and the amount; one that fails is followed by the next. */
export function makeProgressReporter(
  now: () => number,
  write: (said: string, progress: Progress) => Promise<unknown>,
): ProgressReporter {
  let lastMs = 0;
  let last: Progress | null = null;
  let writing: Promise<unknown> = Promise.resolve();
  // An engine may tell of a call that was given up: that must not be written over what came after.
  let over = false;
  return {
    onProgress({ text, ...progress }) {
      if (over) return;
      last = progress;
      if (now() - lastMs < EVERY_MS) return;
      lastMs = now();
      writing = writing.then(() => write(`${text} ${amountOf(progress)}`, progress)).catch(() => {});
    },
    async finish() {
      over = true;
      await writing;
      return last;
    },
  };
}

/** Tells it of an instance; `show` is what is shown beside it. */
export const makeInstanceProgressReporter = (work: Work, show: () => Partial<Observed>): ProgressReporter =>
  makeProgressReporter(work.deps.now, (message, progress) =>
    note(work, { observed: { ...show(), message, progress, ...diagnosisFields('', '') } }),
  );

/** How far a pull or a push is, written to the row about once a second, one write after the other. */
import type { Observed } from '../../domain/instance.ts';
import { amountOf, type Progress } from '../../domain/operation.ts';
import { diagnosed } from '../../domain/plan.ts';
import type { ImageProgress } from '../../engines/contract.ts';
import { note, type Work } from './work.ts';

const EVERY_MS = 1_000;

export interface Teller {
  onProgress: (progress: ImageProgress) => void;
  /** Answers what was told last, once all that was told is written, or was dropped because the row is another's. */
  done: () => Promise<Progress | null>;
}

/** `show` is what is shown beside it. */
export function makeTeller(work: Work, show: () => Partial<Observed>): Teller {
  const { now } = work.needs;
  let lastMs = 0;
  let last: Progress | null = null;
  let writing: Promise<void> = Promise.resolve();
  return {
    onProgress({ text, ...progress }) {
      last = progress;
      if (now() - lastMs < EVERY_MS) return;
      lastMs = now();
      const observed = { ...show(), message: `${text} ${amountOf(progress)}`, progress, ...diagnosed('', '') };
      writing = writing.then(() => note(work, { observed })).catch(() => {});
    },
    async done() {
      await writing;
      return last;
    },
  };
}

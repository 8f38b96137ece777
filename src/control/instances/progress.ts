/** Reports the progress of a pull or push to an instance. */
import type { Observed } from '../../domain/instance.ts';
import { diagnosisFields } from '../../domain/plan.ts';
import { makeProgressReporter, type ProgressReporter } from '../images/progress-reporter.ts';
import { note, type Work } from './work.ts';

/** `current` returns the other observed fields to write with each report. */
export const makeInstanceProgressReporter = (work: Work, current: () => Partial<Observed>): ProgressReporter =>
  makeProgressReporter(work.deps.now, (message, progress) =>
    note(work, { observed: { ...current(), message, progress, ...diagnosisFields('', '') } }),
  );

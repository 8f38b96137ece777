/** Reports the progress of a pull or push to an instance. */
import type { Observed } from '../../domain/instance.ts';
import { diagnosisFields } from '../../domain/plan.ts';
import { makeProgressReporter, type ProgressReporter } from '../images/progress-reporter.ts';
import { writeObservation, type ReconcileContext } from './reconcile-context.ts';

/** `current` returns the other observed fields to write with each report. */
export const makeInstanceProgressReporter = (
  work: ReconcileContext,
  current: () => Partial<Observed>,
): ProgressReporter =>
  makeProgressReporter(work.deps.now, (message, progress) =>
    writeObservation(work, { observed: { ...current(), message, progress, ...diagnosisFields('', '') } }),
  );

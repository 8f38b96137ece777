/** Reports the progress of a pull or push to an instance. */
import type { Observed } from '../../domain/instance.ts';
import { diagnosisFields } from '../../domain/plan.ts';
import { makeProgressReporter, type ProgressReporter } from '../images/progress-reporter.ts';

export const makeInstanceProgressReporter = (
  now: () => number,
  write: (observed: Partial<Observed>) => Promise<void>,
): ProgressReporter =>
  makeProgressReporter(now, (message, progress) => write({ message, progress, ...diagnosisFields('', '') }));

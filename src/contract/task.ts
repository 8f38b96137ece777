/** Background tasks of the server, for administrators. */
import { z } from 'zod';

const task = z.strictObject({
  name: z.string(),
  intervalMs: z.number().int(),
  running: z.boolean(),
  /** Epoch milliseconds; null before the first run. */
  lastStartedAt: z.number().int().nullable(),
  /** Null before the first run ended. */
  lastDurationMs: z.number().int().nullable(),
  /** Why the last run failed; null if it succeeded. */
  lastError: z.string().nullable(),
  /** Runs that ended since the server started, and how many of them failed. */
  runs: z.number().int(),
  failures: z.number().int(),
});

export const taskListAnswer = z.strictObject({ tasks: z.array(task) });

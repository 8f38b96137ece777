/** Background tasks of the server. */
import { z } from 'zod';
import { answer, empty, flag, integer, integerOrNull, text, textOrNull } from './common.ts';
import { operatorReadRoute } from './route.ts';

const task = answer('Task', {
  name: text('Name of the task'),
  intervalMs: integer('Pause between two runs, in milliseconds'),
  running: flag('Whether the task runs now'),
  lastStartedAt: integerOrNull('Start of the last run, Unix milliseconds; null before the first'),
  lastDurationMs: integerOrNull('Duration of the last finished run in milliseconds; null before the first'),
  lastError: textOrNull('Error of the last run; null if the run succeeded'),
  runs: integer('Finished runs since the server started'),
  failures: integer('Failed runs since the server started'),
});

export const taskListAnswer = answer('ListTasksAnswer', { tasks: z.array(task).describe('Background tasks') });

export const taskRoutes = {
  listTasks: operatorReadRoute('/admin/task/list', empty, taskListAnswer, {
    summary: 'List background tasks of the server and how their last run went (administrators)',
  }),
} as const;

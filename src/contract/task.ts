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

const failingAct = answer('FailingAct', {
  subjectId: text('What the act is done to, such as an instance or an account'),
  failures: integer('Failed tries in a row'),
  error: text('Error of the last try'),
});

const dueKind = answer('DueActs', {
  kind: text('Kind of the acts, such as "stop" or "paidTime"'),
  count: integer('Number of acts of this kind'),
  nextAtMs: integerOrNull('Time of the next one, Unix milliseconds; null while all wait for a change'),
  failing: z.array(failingAct).describe('Up to 20 acts whose last try failed'),
});

export const taskListAnswer = answer('ListTasksAnswer', {
  tasks: z.array(task).describe('Background tasks'),
  due: z.array(dueKind).describe('Acts that are due at a time, by kind'),
});

export const taskRoutes = {
  listTasks: operatorReadRoute('/admin/task/list', empty, taskListAnswer, {
    summary: 'List background tasks of the server and how their last run went (administrators)',
  }),
} as const;

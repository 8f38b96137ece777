/** Cost and load of several instances in one answer, for tables. */
import { z } from 'zod';
import { answer, decimal, id, integer, request, text } from '../common.ts';
import { readRoute } from '../route.ts';

const MAX_INSTANCES = 100;

export const instanceFiguresRequest = request('InstanceFiguresRequest', {
  instanceIds: z
    .array(id.describe('Instance ID'))
    .max(MAX_INSTANCES)
    .describe('Instances; those that are not of the account are left out'),
});

const percents = z.array(z.number().nullable());
const figures = answer('InstanceFigures', {
  instanceId: text('Instance ID'),
  costToday: decimal("Dollars charged since midnight of the region's time zone"),
  costSoFar: decimal('Dollars charged since the launch'),
  fromUnixMs: integer('Start: step n begins at fromUnixMs + n * stepSeconds * 1000'),
  stepSeconds: integer('Length of a step'),
  cpuPercent: percents.describe('Mean CPU of each step in percent of the limit of now; null without data'),
  gpuPercent: percents.describe('Mean utilization of the GPUs of each step in percent; empty without GPUs'),
});
export const instanceFiguresAnswer = answer('InstanceFiguresAnswer', {
  figures: z.array(figures).describe('Figures of the last 24 hours, in the order of the request'),
});

export const figuresRoutes = {
  instanceFigures: readRoute('/instance/figures', instanceFiguresRequest, instanceFiguresAnswer, {
    compressed: true,
    summary: 'Return what up to 100 instances cost, and their load over the last 24 hours',
  }),
} as const;

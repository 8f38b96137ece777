/** Whether a request at the gateway starts a stopped instance. */
import { z } from 'zod';
import { MAX_VISITOR_WAKES, wakers } from '../../domain/compute/wake.ts';
import { answer, id, integer, request, text, wholeNumber } from '../common.ts';
import { jsonRoute } from '../route.ts';

const by = z
  .enum(wakers)
  .describe('Whose requests start it while it is stopped; `visitors`: also of others who may open the port');
const visitorsPerDay = wholeNumber(1, MAX_VISITOR_WAKES).describe('Most starts by visitors in 24 hours');

export const wakeRequest = request(
  'WakeRequest',
  { instanceId: id.describe('Instance ID'), by: by.optional(), visitorsPerDay: visitorsPerDay.optional() },
  'A field left out keeps its value',
);
export const wakeAnswer = answer('Wake', {
  instanceId: text('Instance ID'),
  by,
  visitorsPerDay: integer('Most starts by visitors in 24 hours'),
  visitorsToday: integer('Starts by visitors in the last 24 hours'),
});

export const wakeRoutes = {
  wake: jsonRoute('/instance/wake', wakeRequest, wakeAnswer, {
    lasting: { scope: 'instances' },
    summary:
      'Set and return whose requests at the gateway start an instance while it is stopped: a field left out stays',
  }),
} as const;

/** Drains of regions. */
import { z } from 'zod';
import { regionDrain } from './catalog.ts';
import { answer, id, label, request, text, wholeNumber } from '../common.ts';
import { operatorRoute } from '../route.ts';

const MAX_MINUTES = 7 * 24 * 60;

export const drainRequest = request('DrainRegionRequest', {
  regionId: id.describe('Region ID'),
  drain: z.boolean().describe('True: no new launches and starts; false: ends the drain'),
  reason: label(500).describe('Reason, shown to accounts'),
  stopRunningAfterMinutes: wholeNumber(0, MAX_MINUTES)
    .describe('Stops what still runs after this time; without it, running instances stay')
    .optional(),
});
export const drainAnswer = answer('DrainRegionAnswer', {
  regionId: text('Region ID'),
  drain: regionDrain,
});

export const drainRoutes = {
  drainRegion: operatorRoute('/admin/region/drain', drainRequest, drainAnswer, {
    idempotent: true,
    summary: 'Drain a region: no launches and starts; running instances stay, or are stopped after a time (operators)',
  }),
} as const;

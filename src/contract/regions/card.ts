/** GPUs in quarantine. */
import { z } from 'zod';
import { answer, id, label, plainText, request, text } from '../common.ts';
import { operatorRoute } from '../route.ts';

export const cardReturnRequest = request('ReturnCardRequest', {
  regionId: id.describe('Region ID'),
  cardId: plainText(200).describe('ID of the GPU, as `/admin/fleet` shows it'),
  reason: label(500).describe('What was done; administrators read it in the event `card.returned`'),
});
export const cardReturnAnswer = answer('ReturnCardAnswer', {
  regionId: text('Region ID'),
  cardId: text('ID of the GPU'),
  reasons: z.array(z.string()).describe('Reasons of the quarantine that ended'),
});

export const cardRoutes = {
  returnCard: operatorRoute('/admin/card/return', cardReturnRequest, cardReturnAnswer, {
    idempotent: true,
    summary: 'End the quarantine of a GPU, which then takes launches again (operators)',
  }),
} as const;

/** Costs of a launch before it. */
import { z } from 'zod';
import { chargeModes } from '../../domain/regions/catalog.ts';
import { answer, decimal, integer, oneOfText, text, unixMs } from '../common.ts';

export const QUOTE_HEADER = 'X-Berth-Quote';

const stop = answer(
  'QuotedStop',
  {
    rule: oneOfText(['longestRun', 'offPeakEnd', 'paidTime'], 'Rule that stops the instance'),
    atUnixMs: unixMs('Time of the stop of an instance that is `Running` at `startsAtUnixMs`'),
    cost: decimal('Dollars for the run until then; of paid time its total'),
  },
  'A stop that a rule fixes, and what the run costs until it',
);

const quote = answer(
  'Quote',
  {
    quoteId: text(`Value of the header \`${QUOTE_HEADER}\` of a launch at this price`),
    expiresAtUnixMs: unixMs('End of the quote'),
    chargeMode: z.enum(chargeModes).describe('Billing mode'),
    duration: integer('Units that are bought'),
    price: decimal('Dollars for one unit'),
    unit: oneOfText(['hour', 'day', 'week', 'month'], 'Unit of the price'),
    pricePerHour: decimal('Dollars for an hour as `Running`; of paid time its share, a month counts 30 days'),
    pricePerDay: decimal('The same for 24 hours'),
    total: decimal('Dollars that the launch pays ahead; 0 for the modes by the hour'),
    stoppedPricePerHour: decimal('Dollars for an hour of its disks while it is stopped'),
    startsAtUnixMs: unixMs('Earliest start: now, or the next off-peak window'),
    stops: z.array(stop).describe('Stops by rules; empty without any'),
    cheapestStart: answer('CheapestStart', {
      chargeMode: z.enum(chargeModes).describe('Billing mode'),
      pricePerHour: decimal('Dollars for an hour'),
      atUnixMs: unixMs('Time of the start'),
    })
      .nullable()
      .describe('Cheapest hour of the type, now or in the next off-peak window; null for what is paid ahead'),
    nextPriceChange: answer('NextPriceChange', {
      atUnixMs: unixMs('Time of the change'),
      price: decimal('Dollars for one unit from then on'),
    })
      .nullable()
      .describe('Next change of the price of the type in this billing mode, for launches after it; null: none is set'),
    available: decimal('Dollars that the launch can spend: cash, overdraft, and vouchers and credits that fit'),
    burnRatePerHour: decimal('Dollars for an hour of what the account runs, starts and stores now'),
    balanceLastsHours: z
      .number()
      .nullable()
      .describe('Hours that the money lasts with this instance, of paid time after its payment; null: for ever'),
    stockStatus: z.enum(['InStock', 'OutOfStock']).describe('Whether the launch fits now'),
  },
  'Costs of a launch',
);
export const quoteAnswer = answer('QuoteAnswer', { quote: quote.describe('The quote') });

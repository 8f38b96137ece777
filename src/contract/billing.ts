/** Books of an account: entries of its ledger, and its usage periods. */
import { z } from 'zod';
import { meters, meterStates } from '../domain/meter.ts';
import {
  answer,
  decimal,
  id,
  integer,
  integerOrNull,
  oneOfText,
  pagerAnswer,
  pagerRequest,
  plainText,
  request,
  text,
  unixMs,
  wholeNumber,
} from './common.ts';

const time = (description: string) => wholeNumber(0, Number.MAX_SAFE_INTEGER).describe(description).optional();

const filters = {
  pager: pagerRequest.describe('Page to return'),
  subjectId: id.describe('Only this instance, volume or snapshot').optional(),
  meter: z.enum(meters).describe('Only this meter').optional(),
};

/** Entries of other kinds come with later versions. */
export const entryKinds = ['charge', 'deposit', 'grant', 'refund', 'reversal', 'expiry'] as const;
const sources = ['cash', 'voucher', 'credit', 'uncollected'] as const;

export const entriesRequest = request('ListEntriesRequest', {
  ...filters,
  kind: plainText(64).describe('Only entries of this kind, such as `charge` or `deposit`').optional(),
  fromUnixMs: time('Only entries from this time on, Unix milliseconds'),
  untilUnixMs: time('Only entries before this time, Unix milliseconds'),
});

const transition = answer(
  'UsageTransition',
  {
    seq: integer("Number of the event in the account's event stream"),
    kind: text('Kind of the event; absent once the event was deleted').optional(),
  },
  'Event that opened or closed a usage period',
);
const transitions = answer(
  'UsageTransitions',
  {
    opened: transition.describe('Event that opened the period'),
    closed: transition.describe('Event that closed it; absent while it is open').optional(),
  },
  'Events that opened and closed a usage period',
);

const subject = {
  instanceId: text('Instance that the use or payment is for').optional(),
  volumeId: text('Volume that the use is for').optional(),
  snapshotId: text('Snapshot that the use is for').optional(),
};

const entry = answer(
  'LedgerEntry',
  {
    entryId: text('ID of the entry'),
    atUnixMs: unixMs('Time of the entry'),
    amount: decimal('Dollars; negative for charges and expiries, positive for deposits, grants and refunds'),
    kind: oneOfText(entryKinds, 'Kind of the entry'),
    ...subject,
    meter: oneOfText(meters, 'What was metered').optional(),
    fromUnixMs: unixMs('Start of the charged time').optional(),
    untilUnixMs: unixMs('End of the charged time').optional(),
    reason: text('Why; empty for metered use'),
    source: oneOfText(sources, 'Money that moved; `uncollected`: nobody could pay, and the balance did not change'),
    grantId: text('Voucher or credit that moved').optional(),
    periodId: text('ID of the usage period of metered use').optional(),
    reversesId: text('ID of the entry that a reversal or refund takes back').optional(),
    transitions: transitions.describe('Events behind metered use').optional(),
  },
  'Movement of money of an account',
);

const pager = pagerAnswer.describe('Page; `totalEntries` counts at most 10,000');

export const entriesAnswer = answer('ListEntriesAnswer', {
  entries: z.array(entry).describe('Entries, newest first'),
  pager,
});

export const periodsRequest = request('ListUsagePeriodsRequest', {
  ...filters,
  state: z.enum(meterStates).describe('Only periods of this state').optional(),
  fromUnixMs: time('Only periods that end after this time, Unix milliseconds'),
  untilUnixMs: time('Only periods that begin before this time, Unix milliseconds'),
});

const period = answer(
  'UsagePeriod',
  {
    periodId: text('ID of the period'),
    ...subject,
    name: text('Name of the resource when the period began'),
    meter: oneOfText(meters, 'What is metered'),
    state: oneOfText(meterStates, 'Whether the time is charged; the others are free, or paid ahead'),
    regionId: text('Region'),
    instanceTypeId: text('Instance type; absent for volumes and snapshots').optional(),
    price: decimal('Dollars per unit: an hour of an instance, or a GB for 30 days'),
    quantity: integer('1 for an instance that runs, otherwise the size in GB'),
    fromUnixMs: unixMs('Start'),
    untilUnixMs: integerOrNull('End, Unix milliseconds; null while the period is open'),
    freeMs: integer('Milliseconds of a charged period that are free: nobody knows whether the instance ran'),
    amount: decimal('Dollars charged so far; 0 for free time'),
    transitions: transitions.describe('Events that opened and closed the period'),
  },
  'Time in which a resource has one price',
);

export const periodsAnswer = answer('ListUsagePeriodsAnswer', {
  periods: z.array(period).describe('Periods, newest first'),
  pager,
});

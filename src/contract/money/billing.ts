/** Books of an account: entries of its ledger, and its usage periods. */
import { z } from 'zod';
import { meters, meterStates } from '../../domain/money/meter.ts';
import { labelKeyPattern } from '../../domain/kernel/resource-labels.ts';
import { bucketUnits, monthPattern } from '../../domain/money/usage-buckets.ts';
import {
  answer,
  decimal,
  type ErrorCode,
  id,
  integer,
  integerOrNull,
  oneOfText,
  pagerAnswer,
  pagerRequest,
  plainText,
  request,
  text,
  timeZoneName,
  unixMs,
  wholeNumber,
} from '../common.ts';
import { adminBytesRoute, adminReadRoute, bytesRoute, readRoute, streamCodes } from '../route.ts';

const time = (description: string) => wholeNumber(0, Number.MAX_SAFE_INTEGER).describe(description).optional();

const filters = {
  pager: pagerRequest.describe('Page to return'),
  subjectId: id.describe('Only this instance, volume or snapshot').optional(),
  meter: z.enum(meters).describe('Only this meter').optional(),
};

export const entryKinds = ['charge', 'prepayment', 'deposit', 'grant', 'refund', 'reversal', 'expiry', 'tax'] as const;
const sources = ['cash', 'voucher', 'credit', 'uncollected', 'tax'] as const;

const entryFilters = {
  ...filters,
  kind: z.enum(entryKinds).describe('Only entries of this kind').optional(),
  fromUnixMs: time('Only entries from this time on, Unix milliseconds'),
  untilUnixMs: time('Only entries before this time, Unix milliseconds'),
};
export const entriesRequest = request('ListEntriesRequest', entryFilters);
export const accountEntriesRequest = request('ListAccountEntriesRequest', {
  username: plainText(320).describe('Name or email address of the account'),
  ...entryFilters,
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
    closed: transition
      .describe('Event that closed it; absent while it is open, and where a gap, a new name or new labels ended it')
      .optional(),
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
    price: decimal('Dollars per unit of metered use, or of a unit of time paid ahead').optional(),
    quantity: decimal('Units: `price` × `quantity` is the amount').optional(),
    reason: text('Why; empty for metered use'),
    source: oneOfText(
      sources,
      'Money that moved; of `uncollected`, which nobody could pay, and of `tax` the balance did not change',
    ),
    grantId: text('Voucher or credit that moved').optional(),
    periodId: text('ID of the usage period of metered use').optional(),
    reversesId: text('ID of the entry that a reversal or refund takes back').optional(),
    transitions: transitions
      .describe('Events behind metered use; `closed` where the period ends with the entry')
      .optional(),
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
    name: text('Name of the resource in the period'),
    meter: oneOfText(meters, 'What is metered'),
    state: oneOfText(meterStates, 'Whether the time is charged; the others are free, or paid ahead'),
    regionId: text('Region'),
    instanceTypeId: text('Instance type; absent for volumes and snapshots').optional(),
    price: decimal('Dollars per unit: an hour of an instance, or a GB for 30 days'),
    quantity: integer('1 for an instance that runs, otherwise the size in GB'),
    fromUnixMs: unixMs('Start'),
    untilUnixMs: integerOrNull('End, Unix milliseconds; null while the period is open'),
    freeMs: integer('Always 0: free time has periods of its own'),
    amount: decimal('Dollars charged so far; 0 for free time'),
    transitions: transitions.describe('Events that opened and closed the period'),
  },
  'Time in which a resource has one price',
);

export const periodsAnswer = answer('ListUsagePeriodsAnswer', {
  periods: z.array(period).describe('Periods, newest first'),
  pager,
});

const timeZone = timeZoneName.default('UTC').describe('IANA time zone of the spans; they begin at full hours of UTC');
const month = z
  .string()
  .regex(monthPattern, { error: 'must be a month such as "2026-11"' })
  .describe('Month, such as `2026-11`');

const GROUPS = new RegExp(`^(resource|meter|type|label:${labelKeyPattern.slice(1, -1)})$`);
const lastMs = wholeNumber(0, 8_640_000_000_000);

const spans = {
  fromUnixMs: lastMs.describe('Start of the range, Unix milliseconds; the first span contains it'),
  untilUnixMs: lastMs.describe('End of the range, Unix milliseconds'),
  by: z.enum(bucketUnits).describe('Length of the spans'),
};
export const usageRequest = request('UsageRequest', {
  pager: pagerRequest.describe('Page to return'),
  ...spans,
  groupBy: z
    .string()
    .regex(GROUPS, { error: 'must be "resource", "meter", "type", or "label:" and the key of a label' })
    .default('resource')
    .describe('What a row sums: `resource`, `meter`, `type` of instances, or `label:` and a key'),
  timeZone,
});

const stateTime = answer(
  'StateTime',
  {
    state: oneOfText(meterStates, 'State; all but `charged` and `paidAhead` are free'),
    ms: integer('Milliseconds'),
  },
  'Time in one state',
);
const timeByState = z.array(stateTime).describe('Milliseconds by state; absent states have none');

const pricedUse = answer(
  'PricedUse',
  {
    price: decimal('Dollars per unit: an hour of an instance, or a GB for 30 days'),
    quantity: decimal('Charged units; negative for starts that were free after all'),
    unit: oneOfText(['hours', 'GB-months'], 'Unit of the quantity; a month has 30 days'),
    amount: decimal('Dollars: `price` × `quantity`, but for less than a micro-dollar for each period'),
  },
  'Charged use of one price',
);
const parts = {
  prices: z.array(pricedUse).describe('Charged use by price; with `purchases`, less `refunds`, it is the amount'),
  purchases: decimal('Dollars paid ahead'),
  refunds: decimal('Dollars given back, free starts too'),
  uncollected: decimal('Dollars of the use that nobody could pay'),
};

const usageRow = answer(
  'UsageRow',
  {
    fromUnixMs: unixMs('Start of the span'),
    untilUnixMs: unixMs('End of the span'),
    ...subject,
    meter: oneOfText(meters, 'Meter of a resource').optional(),
    name: text('Name of the resource').optional(),
    group: text('Meter, instance type or value of the label; empty for resources without').optional(),
    time: timeByState,
    ...parts,
    amount: decimal('Dollars'),
  },
  'Usage of a resource or a group in a span',
);
export const usageAnswer = answer('UsageAnswer', {
  rows: z.array(usageRow).describe('Rows, oldest span first'),
  pager: pagerAnswer.describe('Page, and the number of rows'),
});

export const gpuUseRequest = request('GpuUseRequest', { ...spans, timeZone });
const hours = (description: string) => decimal(`Hours of one GPU ${description}; a part of a card counts as its share`);
const gpuUseSpan = answer(
  'GpuUseSpan',
  {
    fromUnixMs: unixMs('Start of the span'),
    untilUnixMs: unixMs('End of the span'),
    heldHours: hours('that running instances held'),
    measuredHours: hours('of it with known utilization'),
    busyHours: z.number().nullable().describe('Utilization × measured hours; null: nothing was measured'),
    busyShare: z.number().nullable().describe('`busyHours` by `measuredHours`; null: nothing was measured'),
  },
  'GPU time of the account in a span',
);
export const gpuUseAnswer = answer('GpuUseAnswer', {
  spans: z.array(gpuUseSpan).describe('All spans of the range, oldest first'),
});

export const statementRequest = request('StatementRequest', {
  month,
  timeZone,
  pager: pagerRequest.default({ currentPage: 1, pageSize: 100 }).describe('Page of `resources`'),
});
export const statementQuery = z.object({ month, timeZone });

const statementBalance = answer(
  'StatementBalance',
  {
    account: oneOfText(['cash', 'voucher', 'credit'], 'Ledger account'),
    opening: decimal('Dollars at the start of the month'),
    closing: decimal('Dollars at its end, or now'),
  },
  'Balance of a ledger account: opening and movements sum up to closing',
);
const movement = answer(
  'StatementMovement',
  {
    kind: oneOfText(entryKinds, 'Kind of the entries'),
    account: oneOfText(['cash', 'voucher', 'credit'], 'Ledger account'),
    amount: decimal('Dollars, negative where money left the account'),
  },
  'Sum of the entries of one kind',
);
const statementMeter = answer(
  'StatementMeter',
  {
    meter: oneOfText(meters, 'Meter'),
    periods: integer('Usage periods in the month'),
    time: timeByState,
    amount: decimal('Dollars'),
  },
  'Usage of a meter in the month',
);
const statementLine = answer(
  'StatementLine',
  {
    ...subject,
    name: text('Name of the resource'),
    meter: oneOfText(meters, 'Meter; absent for payments without usage').optional(),
    regionId: text('Region'),
    instanceTypeId: text('Instance type; absent for storage').optional(),
    periods: integer('Usage periods in the month'),
    time: timeByState,
    quantity: decimal('Charged hours of an instance, or GB × hours'),
    unit: oneOfText(['hours', 'GB-hours'], 'Unit of the quantity'),
    ...parts,
    amount: decimal('Dollars'),
  },
  'Usage and charges of one resource and meter',
);

export const statementAnswer = answer('StatementAnswer', {
  month: text('Month'),
  timeZone: text('Time zone'),
  statementId: text('Names the statement; the `InvoiceId` of the FOCUS rows of its charges'),
  fromUnixMs: unixMs('Start of the month'),
  untilUnixMs: unixMs('End of the month'),
  final: z.boolean().describe('Whether all charges of the month are booked: then nothing of it changes any more'),
  balances: z.array(statementBalance).describe('Opening and closing balances'),
  movements: z.array(movement).describe('What moved the balances'),
  charges: decimal('Dollars charged, with what nobody could pay'),
  uncollected: decimal('Dollars of it that nobody could pay'),
  billed: decimal('Dollars of it that cash paid, less refunds to cash, and `tax`'),
  tax: decimal('Dollars of tax that payments had, less that of refunds'),
  meters: z.array(statementMeter).describe('Usage by meter'),
  entries: z.array(entry).describe('Deposits, grants, refunds and payments, oldest first, at most 1,000'),
  hasMoreEntries: z.boolean().describe('Whether there are more; `/billing/entries` lists all'),
  resources: z.array(statementLine).describe('Usage and charges by resource, by ID'),
  pager: pagerAnswer.describe(
    'Page of `resources`; `totalEntries` counts at most 10,000 resources, each of one line or more',
  ),
});

export const bookRoutes = {
  listEntries: readRoute('/billing/entries', entriesRequest, entriesAnswer, {
    compressed: true,
    summary: "List the entries of the caller's ledger, newest first, with the events behind charges",
  }),
  listAccountEntries: adminReadRoute('/admin/account/entries', accountEntriesRequest, entriesAnswer, {
    compressed: true,
    summary: "List the entries of an account's ledger, newest first (administrators)",
  }),
  listUsagePeriods: readRoute('/billing/periods', periodsRequest, periodsAnswer, {
    compressed: true,
    summary: "List the caller's usage periods with prices, free ones too, newest first",
  }),
  usage: readRoute('/billing/usage', usageRequest, usageAnswer, {
    compressed: true,
    summary: "Return time and cost of the caller's usage by hour, day, week or month",
  }),
  gpuUse: readRoute('/billing/gpu/use', gpuUseRequest, gpuUseAnswer, {
    compressed: true,
    summary: "Return the GPU time that the caller's instances held, and how much of it was busy",
  }),
  statement: readRoute('/billing/statement', statementRequest, statementAnswer, {
    compressed: true,
    summary: 'Return the statement of a month: balances, payments, charges by resource, free time',
  }),
} as const;

const ofBooks: readonly ErrorCode[] = [...streamCodes, 'field_missing', 'field_type'];
export const XLSX_TYPE = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet';
const csv = { status: 200, description: 'The file', contentTypes: ['text/csv'] };

export const bookFileRoutes = {
  statementCsv: bytesRoute('GET', '/billing/statement.csv', statementQuery, {
    pathParameters: {},
    summary: 'Download the statement of a month with all resources, as CSV',
    successes: [csv],
    codes: ofBooks,
  }),
  statementXlsx: bytesRoute('GET', '/billing/statement.xlsx', statementQuery, {
    pathParameters: {},
    summary: 'Download the statement of a month with all resources, as a workbook of Office Open XML',
    successes: [{ status: 200, description: 'The file', contentTypes: [XLSX_TYPE] }],
    codes: ofBooks,
  }),
  statementPage: bytesRoute('GET', '/billing/statement.html', statementQuery, {
    pathParameters: {},
    summary: 'Return the statement of a month as a page to print; of many resources the first',
    successes: [{ status: 200, description: 'The page', contentTypes: ['text/html'] }],
    codes: ofBooks,
  }),
  focusCsv: bytesRoute('GET', '/billing/focus.csv', statementQuery, {
    pathParameters: {},
    summary: 'Download the charges of a month in the columns of FOCUS 1.2',
    successes: [csv],
    codes: ofBooks,
  }),
  focusCsvOfAll: adminBytesRoute('/admin/billing/focus.csv', statementQuery, {
    pathParameters: {},
    summary: 'Download the charges of all accounts in a month in the columns of FOCUS 1.2 (administrators)',
    successes: [csv],
    codes: ofBooks,
  }),
} as const;

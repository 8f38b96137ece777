/** Charges in the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification. */
import { HOUR_MS } from '../../../domain/kernel/durations.ts';
import type { ChargeExport } from '../../../control/index.ts';
import { toDollars } from '../../../domain/regions/catalog.ts';
import { priceUnitMs } from '../../../domain/money/meter.ts';
import { TAX_LEDGER } from '../../../domain/money/purse.ts';
import { statementId } from '../../../domain/money/statement-id.ts';
import { csvLine } from '../csv.ts';

type Charge = ChargeExport['pages'] extends AsyncIterable<(infer One)[]> ? One : never;
type Export = Pick<ChargeExport, 'span' | 'month' | 'timeZone'>;
type Cell = string | number | null;

const utc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 'yyyy-mm-ddThh:mm:ss'.length)}Z`;

const storage = (subcategory: string, name: string) => ({ category: 'Storage', subcategory, name });
const services: Record<string, { category: string; subcategory: string; name: string }> = {
  compute: { category: 'Compute', subcategory: 'Containers', name: 'Instances' },
  disks: storage('Block Storage', 'Kept disks'),
  filesystem: storage('File Storage', 'Volumes (filesystem)'),
  highspeedstorage: storage('Block Storage', 'Volumes (highspeedstorage)'),
  snapshot: storage('Backup Storage', 'Snapshots'),
};
const otherService = { category: 'Other', subcategory: 'Other (Other)', name: 'Other' };

type Category = 'Usage' | 'Purchase' | 'Tax' | 'Credit' | 'Adjustment';
const categories: Record<string, Category> = { charge: 'Usage', prepayment: 'Purchase', tax: 'Tax' };

/** Units of the price: of metered use, or of time paid ahead, or else the payment as one. */
interface Priced {
  unit: string;
  priceMicros: number;
}

interface Row extends Pick<Charge, 'accountId' | 'username' | 'resource' | 'regionName' | 'isSpot'> {
  category: Category;
  isCorrection: boolean;
  isMetered: boolean;
  fromMs: number;
  untilMs: number;
  subjectId: string;
  meter: string;
  entryId: string | null;
  paidFrom: string;
  notes: readonly string[];
  priced: Priced | null;
  listMicros: number;
  billedMicros: number;
  effectiveMicros: number;
  consumed: { quantity: number; unit: string } | null;
}

/** FOCUS wants ASCII in names and descriptions; `x_ResourceName` has the name as it is. */
const ascii = (text: string): string =>
  text
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^\x20-\x7e]/gu, '?');

const serviceOf = ({ meter, resource }: Row) =>
  services[meter === 'volume' ? (resource?.typeId ?? '') : meter] ?? otherService;
const skuOf = ({ meter, resource }: Row): string =>
  meter === 'disks' ? 'keptDisk' : (resource?.typeId ?? '') || meter;
const detailOf: Record<string, string> = { compute: 'InstanceType', volume: 'StorageClass' };
const detailsOf = (row: Row): string | null => {
  const name = detailOf[row.meter];
  return row.priced && name ? JSON.stringify({ [name]: skuOf(row) }) : null;
};

const calendarUnits: Record<string, string> = { day: 'Days', week: 'Weeks', month: 'Months' };
const unitOf = (priceUnit: string | null): string => calendarUnits[priceUnit ?? ''] ?? 'Units';

const wholeOf = (micros: number): Priced => ({ unit: 'Units', priceMicros: Math.abs(micros) });

const descriptionOf = (row: Row): string =>
  [serviceOf(row).name, row.resource?.subjectName ?? '', ...row.notes].filter((part) => part !== '').join(': ');

const unitPrice = ({ priced }: Row): Cell => priced && toDollars(priced.priceMicros);
const effective = ({ effectiveMicros }: Row): Cell => toDollars(effectiveMicros);
const listed = ({ listMicros }: Row): Cell => toDollars(listMicros);

const columns: Record<string, (row: Row, of: Export) => Cell> = {
  BilledCost: ({ billedMicros }) => toDollars(billedMicros),
  BillingAccountId: ({ accountId }) => accountId,
  BillingAccountName: ({ username }) => username,
  BillingAccountType: () => 'Account',
  BillingCurrency: () => 'USD',
  BillingPeriodEnd: (_, { span }) => utc(span.untilMs),
  BillingPeriodStart: (_, { span }) => utc(span.fromMs),
  ChargeCategory: ({ category }) => category,
  ChargeClass: ({ isCorrection }) => (isCorrection ? 'Correction' : null),
  ChargeDescription: (row) => ascii(descriptionOf(row)),
  ChargeFrequency: ({ isMetered }) => (isMetered ? 'Usage-Based' : 'One-Time'),
  ChargePeriodEnd: ({ untilMs }) => utc(untilMs),
  ChargePeriodStart: ({ fromMs }) => utc(fromMs),
  CommitmentDiscountStatus: () => null,
  ConsumedQuantity: ({ consumed }) => consumed && consumed.quantity,
  ConsumedUnit: ({ consumed }) => consumed && consumed.unit,
  ContractedCost: listed,
  ContractedUnitPrice: unitPrice,
  EffectiveCost: effective,
  InvoiceId: ({ accountId }, { month, timeZone }) => statementId(accountId, { month, timeZone }),
  InvoiceIssuerName: () => 'Berth',
  ListCost: listed,
  ListUnitPrice: unitPrice,
  PricingCategory: ({ priced, isSpot }) => priced && (isSpot ? 'Dynamic' : 'Standard'),
  PricingCurrency: () => 'USD',
  PricingCurrencyContractedUnitPrice: unitPrice,
  PricingCurrencyEffectiveCost: effective,
  PricingCurrencyListUnitPrice: unitPrice,
  PricingQuantity: ({ priced, listMicros }) => priced && listMicros / priced.priceMicros,
  PricingUnit: ({ priced }) => priced && priced.unit,
  ProviderName: () => 'Berth',
  PublisherName: () => 'Berth',
  RegionId: ({ resource }) => resource?.regionId ?? null,
  RegionName: ({ regionName }) => regionName || null,
  ResourceId: ({ subjectId }) => subjectId || null,
  ResourceName: ({ resource }) => resource && ascii(resource.subjectName),
  ResourceType: (row) => (row.subjectId === '' ? null : serviceOf(row).name),
  ServiceCategory: (row) => serviceOf(row).category,
  ServiceName: (row) => serviceOf(row).name,
  ServiceSubcategory: (row) => serviceOf(row).subcategory,
  SkuId: (row) => skuOf(row) || null,
  SkuMeter: ({ meter }) => meter || null,
  SkuPriceDetails: detailsOf,
  SkuPriceId: (row) => row.priced && `${skuOf(row)}@${toDollars(row.priced.priceMicros)}/${row.priced.unit}`,
  SubAccountId: () => null,
  SubAccountName: () => null,
  Tags: ({ resource }) => resource?.labels ?? null,
  x_EntryId: ({ entryId }) => entryId,
  x_PaidFrom: ({ paidFrom }) => paidFrom,
  x_ResourceName: ({ resource }) => resource?.subjectName ?? null,
};

export const focusColumns = Object.keys(columns);
const valuesOf = Object.values(columns);

function rowsOf(charge: Charge, { span }: Export): Row[] {
  const row = charge.entry === null ? amortizedRow(charge) : entryRow(charge, span);
  if (charge.entry === null || row.category === 'Tax' || row.paidFrom === 'cash') return [row];
  const offMicros = -row.billedMicros;
  const off = { listMicros: offMicros, billedMicros: offMicros, effectiveMicros: offMicros };
  const isCredit = row.paidFrom !== 'uncollected';
  const notes = [...row.notes, isCredit ? `paid from ${row.paidFrom}` : 'not collected'];
  return [row, { ...row, ...off, category: isCredit ? 'Credit' : 'Adjustment', priced: null, consumed: null, notes }];
}

const described = ({ accountId, username, resource, regionName, isSpot }: Charge) => ({
  accountId,
  username,
  resource,
  regionName,
  isSpot,
});

/** The quantity is a share of the period's: an hour that two ledgers paid is in two rows. */
function entryRow(charge: Extract<Charge, { period: unknown }>, span: Export['span']): Row {
  const { entry, period } = charge;
  const isCharged = entry.toLedger === 'revenue' || entry.toLedger === TAX_LEDGER;
  const micros = isCharged ? entry.amountMicros : -entry.amountMicros;
  const fromMs = entry.fromMs ?? entry.atMs;
  const isRefund = entry.kind === 'refund';
  const category = categories[isRefund ? (period ? 'charge' : 'prepayment') : entry.kind] ?? 'Adjustment';
  const isHourly = period !== null && priceUnitMs(period.meter) === HOUR_MS;
  const priced: Priced = period
    ? { unit: isHourly ? 'Hours' : 'GB-Months', priceMicros: period.priceMicros }
    : entry.priceMicros === null
      ? wholeOf(micros)
      : { unit: unitOf(entry.priceUnit), priceMicros: entry.priceMicros };
  const quantity = micros / priced.priceMicros;
  return {
    ...described(charge),
    category,
    isCorrection: isRefund && fromMs < span.fromMs,
    isMetered: period !== null,
    fromMs,
    untilMs: entry.untilMs ?? entry.atMs,
    subjectId: entry.subjectId,
    meter: entry.meter,
    entryId: String(entry.id),
    paidFrom: isCharged ? entry.fromLedger : entry.toLedger,
    notes: [isRefund && period ? 'free start' : '', entry.reason],
    priced: category === 'Tax' ? null : priced,
    listMicros: micros,
    billedMicros: micros,
    effectiveMicros: entry.isAmortized === 1 ? 0 : micros,
    consumed: period && {
      quantity: (quantity * period.unitMs) / HOUR_MS,
      unit: isHourly ? 'Hours' : 'GB-Hours',
    },
  };
}

function amortizedRow(charge: Extract<Charge, { entry: null }>): Row {
  const { subjectId, priceMicros, priceUnit, amountMicros, fromMs, untilMs } = charge.use;
  return {
    ...described(charge),
    category: 'Usage',
    isCorrection: false,
    isMetered: true,
    entryId: null,
    fromMs,
    untilMs,
    subjectId,
    meter: 'compute',
    paidFrom: 'paidAhead',
    notes: ['paid ahead'],
    priced: priceMicros > 0 ? { unit: unitOf(priceUnit), priceMicros } : wholeOf(amountMicros),
    listMicros: amountMicros,
    billedMicros: 0,
    effectiveMicros: amountMicros,
    consumed: { quantity: (untilMs - fromMs) / HOUR_MS, unit: 'Hours' },
  };
}

export async function* focusCsv({ pages, ...of }: ChargeExport): AsyncGenerator<string> {
  yield csvLine(focusColumns);
  for await (const page of pages)
    yield page
      .flatMap((charge) => rowsOf(charge, of))
      .map((row) => csvLine(valuesOf.map((valueOf) => valueOf(row, of))))
      .join('');
}

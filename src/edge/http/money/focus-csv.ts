/** Charges in the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification. */
import { HOUR_MS } from '../../../domain/kernel/durations.ts';
import type { ChargeExport } from '../../../control/index.ts';
import { toDollars } from '../../../domain/regions/catalog.ts';
import { priceUnitMs } from '../../../domain/money/meter.ts';
import { csvLine } from '../csv.ts';

type Charge = ChargeExport['pages'] extends AsyncIterable<(infer One)[]> ? One : never;
type Cell = string | number | null;

const utc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 'yyyy-mm-ddThh:mm:ss'.length)}Z`;

const services: Record<string, { category: string; subcategory: string; name: string }> = {
  compute: { category: 'Compute', subcategory: 'Containers', name: 'Instances' },
  disks: { category: 'Storage', subcategory: 'Block Storage', name: 'Kept disks' },
  volume: { category: 'Storage', subcategory: 'File Storage', name: 'Volumes' },
  snapshot: { category: 'Storage', subcategory: 'Backup Storage', name: 'Snapshots' },
};
const otherService = { category: 'Other', subcategory: 'Other (Other)', name: 'Other' };

const categories: Record<string, string> = { charge: 'Usage', prepayment: 'Purchase' };

interface Row extends Charge {
  span: ChargeExport['span'];
  /** Negative for a refund. */
  micros: number;
  priced: Priced | null;
  quantity: number | null;
}

/** FOCUS wants ASCII in names and descriptions; `x_ResourceName` has the name as it is. */
const ascii = (text: string): string =>
  text
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^\x20-\x7e]/gu, '?');

const serviceOf = ({ entry }: Pick<Row, 'entry'>) => services[entry.meter] ?? otherService;
const skuOf = ({ entry, resource }: Row): string =>
  entry.meter === 'disks' ? 'keptDisk' : (resource?.typeId ?? '') || entry.meter;

/** Units of the price: of metered use, or of time paid ahead, or else the payment as one. */
interface Priced {
  unit: string;
  priceMicros: number;
}
const calendarUnits: Record<string, string> = { day: 'Days', week: 'Weeks', month: 'Months' };
function pricedOf({ entry, period, micros }: Charge & { micros: number }): Priced | null {
  if (period !== null)
    return period.priceMicros === 0
      ? null
      : { unit: priceUnitMs(period.meter) === HOUR_MS ? 'Hours' : 'GB-Months', priceMicros: period.priceMicros };
  if (entry.priceMicros !== null)
    return { unit: calendarUnits[entry.priceUnit ?? ''] ?? 'Units', priceMicros: entry.priceMicros };
  return entry.kind === 'prepayment' ? { unit: 'Units', priceMicros: micros } : null;
}
const unitPrice = ({ priced }: Row): Cell => priced && toDollars(priced.priceMicros);

const isFreeStart = ({ entry, period }: Row): boolean => entry.kind === 'refund' && period !== null;
const descriptionOf = (row: Row): string =>
  [serviceOf(row).name, row.resource?.subjectName ?? '', ...(isFreeStart(row) ? ['free start'] : []), row.entry.reason]
    .filter((part) => part !== '')
    .join(': ');

/** Cash alone is billed: vouchers and credits reduce the bill. */
const billed = ({ entry, micros }: Row): number =>
  [entry.fromLedger, entry.toLedger].includes('cash') ? toDollars(micros) : 0;

const columns: Record<string, (row: Row) => Cell> = {
  BilledCost: billed,
  BillingAccountId: ({ accountId }) => accountId,
  BillingAccountName: ({ username }) => username,
  BillingAccountType: () => 'Account',
  BillingCurrency: () => 'USD',
  BillingPeriodEnd: ({ span }) => utc(span.untilMs),
  BillingPeriodStart: ({ span }) => utc(span.fromMs),
  ChargeCategory: ({ entry }) => categories[entry.kind] ?? 'Adjustment',
  ChargeClass: () => null,
  ChargeDescription: (row) => ascii(descriptionOf(row)),
  ChargeFrequency: ({ period }) => (period === null ? 'One-Time' : 'Usage-Based'),
  ChargePeriodEnd: ({ entry }) => utc(entry.untilMs ?? entry.atMs),
  ChargePeriodStart: ({ entry }) => utc(entry.fromMs ?? entry.atMs),
  ConsumedQuantity: ({ quantity, period }) => quantity && period && (quantity * period.unitMs) / HOUR_MS,
  ConsumedUnit: ({ priced, period }) => period && priced && (priced.unit === 'Hours' ? 'Hours' : 'GB-Hours'),
  ContractedCost: ({ micros }) => toDollars(micros),
  ContractedUnitPrice: unitPrice,
  EffectiveCost: billed,
  InvoiceId: () => null,
  InvoiceIssuerName: () => 'Berth',
  ListCost: ({ micros }) => toDollars(micros),
  ListUnitPrice: unitPrice,
  PricingCategory: ({ priced, isSpot }) => priced && (isSpot ? 'Dynamic' : 'Standard'),
  PricingQuantity: ({ quantity }) => quantity,
  PricingUnit: ({ priced }) => priced && priced.unit,
  ProviderName: () => 'Berth',
  PublisherName: () => 'Berth',
  RegionId: ({ resource }) => resource?.regionId ?? null,
  RegionName: ({ regionName }) => regionName || null,
  ResourceId: ({ entry }) => entry.subjectId || null,
  ResourceName: ({ resource }) => resource && ascii(resource.subjectName),
  ResourceType: (row) => (row.entry.subjectId === '' ? null : serviceOf(row).name),
  ServiceCategory: (row) => serviceOf(row).category,
  ServiceName: (row) => serviceOf(row).name,
  ServiceSubcategory: (row) => serviceOf(row).subcategory,
  SkuId: (row) => skuOf(row) || null,
  SkuMeter: ({ entry }) => entry.meter || null,
  SkuPriceDetails: () => null,
  SkuPriceId: (row) => row.priced && `${skuOf(row)}@${toDollars(row.priced.priceMicros)}/${row.priced.unit}`,
  SubAccountId: () => null,
  SubAccountName: () => null,
  Tags: ({ resource }) => resource?.labels ?? null,
  x_EntryId: ({ entry }) => String(entry.id),
  x_PaidFrom: ({ entry }) => (entry.toLedger === 'revenue' ? entry.fromLedger : entry.toLedger),
  x_ResourceName: ({ resource }) => resource?.subjectName ?? null,
};

export const focusColumns = Object.keys(columns);
const valuesOf = Object.values(columns);

/** The quantity is a share of the period's: an hour that two ledgers paid is in two rows. */
function rowOf(charge: Charge, span: ChargeExport['span']): Row {
  const { entry } = charge;
  const micros = entry.toLedger === 'revenue' ? entry.amountMicros : -entry.amountMicros;
  const priced = pricedOf({ ...charge, micros });
  return { ...charge, span, micros, priced, quantity: priced && micros / priced.priceMicros };
}

export async function* focusCsv({ span, pages }: ChargeExport): AsyncGenerator<string> {
  yield csvLine(focusColumns);
  for await (const page of pages)
    yield page
      .map((charge) => {
        const row = rowOf(charge, span);
        return csvLine(valuesOf.map((valueOf) => valueOf(row)));
      })
      .join('');
}

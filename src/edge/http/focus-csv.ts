/** Charges in the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification. */
import { HOUR_MS } from '../../domain/durations.ts';
import type { ChargeExport } from '../../control/index.ts';
import { toDollars } from '../../domain/catalog.ts';
import { csvLine } from './csv.ts';

type Charge = ChargeExport['pages'] extends AsyncIterable<(infer One)[]> ? One : never;
type Cell = string | number | null;

const utc = (ms: number): string => new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');

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
  quantity: number | null;
}

const isStorage = ({ entry }: Row): boolean => entry.meter !== 'compute' && entry.meter !== '';
const serviceOf = ({ entry }: Pick<Row, 'entry'>) => services[entry.meter] ?? otherService;
const skuOf = ({ entry, resource }: Row): string => resource?.typeId || entry.meter;
const unitPrice = ({ period }: Row): Cell => period && toDollars(period.priceMicros);
const descriptionOf = ({ entry, resource }: Row): string =>
  [serviceOf({ entry }).name, resource?.subjectName ?? '', entry.reason].filter((part) => part !== '').join(': ');

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
  ChargeDescription: descriptionOf,
  ChargeFrequency: ({ period }) => (period === null ? 'One-Time' : 'Usage-Based'),
  ChargePeriodEnd: ({ entry }) => utc(entry.untilMs ?? entry.atMs),
  ChargePeriodStart: ({ entry }) => utc(entry.fromMs ?? entry.atMs),
  ConsumedQuantity: ({ quantity, period }) => quantity && period && (quantity * period.unitMs) / HOUR_MS,
  ConsumedUnit: (row) => (row.period === null ? null : isStorage(row) ? 'GB-Hours' : 'Hours'),
  ContractedCost: ({ micros }) => toDollars(micros),
  ContractedUnitPrice: unitPrice,
  EffectiveCost: billed,
  InvoiceIssuerName: () => 'Berth',
  ListCost: ({ micros }) => toDollars(micros),
  ListUnitPrice: unitPrice,
  PricingCategory: ({ period }) => (period === null ? null : 'Standard'),
  PricingQuantity: ({ quantity }) => quantity,
  PricingUnit: (row) => (row.period === null ? null : isStorage(row) ? 'GB-Months' : 'Hours'),
  ProviderName: () => 'Berth',
  PublisherName: () => 'Berth',
  RegionId: ({ resource }) => resource?.regionId ?? null,
  RegionName: ({ regionName }) => regionName || null,
  ResourceId: ({ entry }) => entry.subjectId || null,
  ResourceName: ({ resource }) => resource?.subjectName ?? null,
  ResourceType: (row) => (row.entry.subjectId === '' ? null : serviceOf(row).name),
  ServiceCategory: (row) => serviceOf(row).category,
  ServiceName: (row) => serviceOf(row).name,
  ServiceSubcategory: (row) => serviceOf(row).subcategory,
  SkuId: (row) => skuOf(row) || null,
  SkuMeter: ({ entry }) => entry.meter || null,
  SkuPriceId: (row) => row.period && `${skuOf(row)}@${toDollars(row.period.priceMicros)}`,
  SubAccountId: () => null,
  SubAccountName: () => null,
  Tags: ({ resource }) => resource?.labels ?? null,
  x_EntryId: ({ entry }) => String(entry.id),
  x_PaidFrom: ({ entry }) => (entry.toLedger === 'revenue' ? entry.fromLedger : entry.toLedger),
};

export const focusColumns = Object.keys(columns);

/** A share of a period's quantity: an hour that two ledgers paid is in two rows. */
function rowOf(charge: Charge, span: ChargeExport['span']): Row {
  const { entry, period } = charge;
  const micros = entry.toLedger === 'revenue' ? entry.amountMicros : -entry.amountMicros;
  const quantity = period === null || period.priceMicros === 0 ? null : micros / period.priceMicros;
  return { ...charge, span, micros, quantity };
}

export async function* focusCsv({ span, pages }: ChargeExport): AsyncGenerator<string> {
  yield csvLine(focusColumns);
  for await (const page of pages)
    yield page
      .map((charge) => {
        const row = rowOf(charge, span);
        return csvLine(Object.values(columns).map((valueOf) => valueOf(row)));
      })
      .join('');
}

/** Instance types for administrators. Instances keep size and price of their launch or resize. */
import {
  capacityOf,
  chargeModes,
  fromDollars,
  gpusNamed,
  mapPrices,
  toDollars,
  type ChargeMode,
} from '../../domain/regions/catalog.ts';
import { fitsOneHost, hostsText } from '../../domain/regions/host-sizes.ts';
import { instanceTypeId, regionId } from '../../domain/kernel/ids.ts';
import { capacityShortfall, fits, gpuNameIn, timesFit, zeroCapacity } from '../../domain/regions/placement.ts';
import type { TypePlacement } from '../../domain/regions/node-placement.ts';
import { Refusal, regionNotFound } from '../../domain/kernel/refusal.ts';
import { regionWithUsage } from '../../store/tables/catalog.ts';
import {
  countAtOtherPrice,
  countUsers,
  insertManagedType,
  managedTypeById,
  managedTypeByName,
  managedTypes,
  writeManagedType,
  type ManagedRegion,
  type ManagedType,
} from '../../store/tables/catalog-rows.ts';
import type { Db } from '../../store/store.ts';
import { recordTypePrices } from '../../store/tables/price-changes.ts';
import { hostsOf } from './capacity/host-fit.ts';
import {
  changeCatalog,
  recordChange,
  refuseFull,
  refuseStale,
  sentMembers,
  type Affected,
  type CatalogChangeDeps,
  type Versioned,
} from './catalog-change.ts';
import { refuseDate, refuseUndated, scheduledWarnings } from './scheduled-prices.ts';
import type { Caller, Mutation, Pager } from '../kernel/ports.ts';

type Prices = Record<ChargeMode, number>;

interface Fields {
  name: string;
  cpuCores: number;
  memoryGB: number;
  gpuNum: number;
  gpuName: string;
  rootDiskGB: number;
  dataDiskGB: number;
  cpuType: string;
  runtime: string;
  /** Null: all nodes of the region, or the region is no cluster. */
  placement: TypePlacement | null;
  prices: Prices;
}

export interface ListedType extends Fields {
  instanceTypeId: string;
  version: number;
  retired: boolean;
  regionId: string;
  isSpot: boolean;
}

type Optional<Members> = { [Name in keyof Members]?: Members[Name] | undefined };
type Change = { instanceTypeId: string } & Versioned;
interface ChangeAnswer {
  type: ListedType;
  affected: Affected;
  warnings: string[];
}

export interface OfferedTypes {
  list(pager: Pager): Promise<{ types: ListedType[]; totalEntries: number }>;
  create: Mutation<
    Omit<Fields, 'cpuType' | 'placement'> &
      Pick<Optional<Fields>, 'cpuType' | 'placement'> & { regionId: string; isSpot: boolean },
    { type: ListedType; warnings: string[] }
  >;
  /** With `fromUnixMs` it sets `prices` for that time; the answer is a preview. */
  update: Mutation<Change & Optional<Fields> & { fromUnixMs?: number | undefined }, ChangeAnswer>;
  retire: Mutation<Change & { retired: boolean }, ChangeAnswer>;
}

export const makeOfferedTypes = (deps: CatalogChangeDeps): OfferedTypes => ({
  async list({ currentPage, pageSize }) {
    const { rows, totalEntries } = await managedTypes(deps.store.read, (currentPage - 1) * pageSize, pageSize);
    return { types: rows.map(listed), totalEntries };
  },

  create: (caller, { regionId: region, ...fields }, idempotency) =>
    changeCatalog(deps, caller, idempotency, async (tx, regions, nowMs) => {
      const found = regionOf(regions, region);
      refuseFull('instance types', (await managedTypes(tx, 0, 0)).totalEntries, 'type');
      await refuseTaken(tx, region, fields.name);
      const cpuType = fields.cpuType ?? deps.regions.of(found.facts.id).health.probe?.architecture ?? '';
      const type = typeOf({
        ...fields,
        cpuType,
        placement: fields.placement ?? null,
        regionId: region,
        instanceTypeId: deps.randomUuid(),
        version: 1,
        retired: false,
      });
      refusePlacement(type, found);
      await insertManagedType(tx, type);
      await recordPrices(tx, caller, type, nowMs);
      const data = { name: type.name };
      await recordChange(tx, caller, { kind: 'instanceType.created', subjectId: type.id, data }, nowMs);
      return { type: listed(type), warnings: await warningsOf(deps, tx, type) };
    }),

  update: (caller, { instanceTypeId: id, version, dryRun, fromUnixMs: fromMs, ...fields }, idempotency) =>
    changeCatalog(deps, caller, idempotency, async (tx, regions, nowMs) => {
      const before = await readType(tx, id, version);
      const sent = sentMembers(fields);
      if (Object.keys(sent).length === 0)
        throw new Refusal(
          'field_missing',
          'field "name" is not set; or send "prices", "cpuCores" or another member of the type',
        );
      if (fromMs !== undefined) refuseUndated(sent, 'prices');
      const next = typeOf({ ...listed(before), ...sent });
      refusePlacement(next, regionOf(regions, next.regionId));
      if (next.name !== before.name) await refuseTaken(tx, next.regionId, next.name);
      const isRepriced = chargeModes.some((mode) => next.pricesMicros[mode] !== before.pricesMicros[mode]);
      const of = { regionId: next.regionId, typeId: id };
      if (fromMs !== undefined) {
        await refuseDate(tx, of, { fromMs, nowMs });
        if (!dryRun) await schedule(tx, caller, next, { fromMs, nowMs });
      } else if (isRepriced && !dryRun) await recordPrices(tx, caller, next, nowMs);
      const follows = sent.prices ? await scheduledWarnings(tx, of, fromMs ?? nowMs) : [];
      const previews = dryRun || fromMs !== undefined;
      const answer = await write({ deps, tx, caller, nowMs, dryRun: previews, kind: 'instanceType.updated' }, next);
      return { ...answer, warnings: [...answer.warnings, ...follows] };
    }),

  retire: (caller, { instanceTypeId: id, version, dryRun, retired }, idempotency) =>
    changeCatalog(deps, caller, idempotency, async (tx, _, nowMs) => {
      const next = { ...(await readType(tx, id, version)), isRetired: retired };
      const kind = retired ? 'instanceType.retired' : 'instanceType.offered';
      return write({ deps, tx, caller, nowMs, dryRun, kind }, next);
    }),
});

interface WriteContext {
  deps: CatalogChangeDeps;
  tx: Db;
  caller: Parameters<OfferedTypes['create']>[0];
  nowMs: number;
  dryRun: boolean;
  kind: string;
}

async function write(
  { deps, tx, caller, nowMs, dryRun, kind }: WriteContext,
  next: ManagedType,
): Promise<ChangeAnswer> {
  const of = { regionId: next.regionId, typeId: next.id };
  const users = await countUsers(tx, of);
  const atOtherPrice = await countAtOtherPrice(tx, deps.store.kind, of, next.pricesMicros);
  const written = dryRun ? next : { ...next, version: next.version + 1 };
  if (!dryRun) {
    await writeManagedType(tx, written);
    await recordChange(tx, caller, { kind, subjectId: next.id, data: { name: next.name } }, nowMs);
  }
  return { type: listed(written), affected: { ...users, atOtherPrice }, warnings: await warningsOf(deps, tx, next) };
}

const recordPrices = (tx: Db, { accountId }: Caller, { id, regionId, pricesMicros }: ManagedType, nowMs: number) =>
  recordTypePrices(tx, { fromMs: nowMs, regionId, typeId: id, byAccountId: accountId }, pricesMicros);

async function schedule(
  tx: Db,
  caller: Caller,
  { id, name, regionId: region, pricesMicros }: ManagedType,
  { fromMs, nowMs }: { fromMs: number; nowMs: number },
): Promise<void> {
  const change = { fromMs, regionId: region, typeId: id, byAccountId: caller.accountId, isScheduled: true };
  await recordTypePrices(tx, change, pricesMicros);
  const data = { name, regionId: region, fromUnixMs: fromMs };
  await recordChange(tx, caller, { kind: 'prices.scheduled', subjectId: id, data }, nowMs);
}

async function readType(tx: Db, id: string, version: number): Promise<ManagedType> {
  const type = await managedTypeById(tx, id);
  if (!type) throw new Refusal('not_found', `instance type ${id} not found; POST /api/admin/type/list lists all types`);
  refuseStale(`instance type ${type.name}`, type.version, version, listed(type));
  return type;
}

function refusePlacement({ placement }: ManagedType, { facts }: ManagedRegion): void {
  if (placement === undefined || facts.engine === 'kubernetes') return;
  throw new Refusal(
    'field_value',
    `field "placement" chooses nodes of a cluster, but region ${facts.name} is none (${facts.engine}); leave it out, or send null`,
  );
}

function regionOf(regions: readonly ManagedRegion[], id: string): ManagedRegion {
  const region = regions.find(({ facts }) => facts.id === id);
  if (!region) throw regionNotFound(id);
  return region;
}

async function refuseTaken(tx: Db, region: string, name: string): Promise<void> {
  const taken = await managedTypeByName(tx, region, name);
  if (!taken) return;
  const state = taken.isRetired ? ', which is retired: offer it again, or rename it' : ': choose another name';
  throw new Refusal('name_taken', `the region has the instance type ${name} (${taken.id})${state}`);
}

const listed = ({
  id,
  gpuCount,
  pricesMicros,
  isRetired,
  runtime = '',
  placement,
  ...type
}: ManagedType): ListedType => ({
  instanceTypeId: id,
  version: type.version,
  retired: isRetired,
  regionId: type.regionId,
  name: type.name,
  isSpot: type.isSpot,
  cpuCores: type.cpuCores,
  memoryGB: type.memoryGB,
  gpuNum: gpuCount,
  gpuName: type.gpuName,
  rootDiskGB: type.rootDiskGB,
  dataDiskGB: type.dataDiskGB,
  cpuType: type.cpuType,
  runtime,
  placement: placement ?? null,
  prices: mapPrices(pricesMicros, toDollars),
});

function typeOf({
  instanceTypeId: id,
  gpuNum,
  prices,
  retired,
  runtime,
  placement,
  regionId: region,
  ...type
}: ListedType): ManagedType {
  if (gpuNum > 0 !== (type.gpuName !== ''))
    throw new Refusal(
      'field_value',
      gpuNum > 0
        ? `field "gpuName" is empty, and "gpuNum" is ${gpuNum}: send the GPU model`
        : `field "gpuName" is ${JSON.stringify(type.gpuName)}, and "gpuNum" is 0: send both, or an empty "gpuName"`,
    );
  return {
    ...type,
    id: instanceTypeId(id),
    regionId: regionId(region),
    gpuCount: gpuNum,
    isRetired: retired,
    ...(runtime === '' ? {} : { runtime }),
    ...(placement === null ? {} : { placement }),
    pricesMicros: mapPrices(prices, fromDollars),
  };
}

/** A type that does not fit is offered as out of stock: the machine may grow. */
async function warningsOf({ regions }: CatalogChangeDeps, tx: Db, type: ManagedType): Promise<string[]> {
  const counted = await regionWithUsage(tx, type.regionId);
  const drivers = regions.all().find(({ regionId }) => regionId === type.regionId);
  const probe = drivers?.health.probe;
  const warnings: string[] = [];
  const need = capacityOf(type);
  if (counted && !fits(need, counted.total))
    warnings.push(
      `no launch of ${type.name} succeeds now: region ${counted.region.name} lacks ${capacityShortfall(need, counted.total)} even when empty; the type is shown as out of stock`,
    );
  const total = counted?.total ?? zeroCapacity;
  const fitting = timesFit(need, total) * type.gpuCount;
  const cards = gpusNamed(total.gpus, gpuNameIn(Object.keys(total.gpus), type.gpuName));
  const stranded = cards - (cards % Math.max(1, type.gpuCount)) - fitting;
  if (type.gpuCount > 0 && fitting > 0 && stranded > 0)
    warnings.push(
      `instances of ${type.name} take ${fitting} of ${cards} GPUs of region ${counted?.region.name}: cores or memory are used up, and ${stranded} stay free; make the type smaller`,
    );
  const hosts = drivers ? hostsOf(drivers) : null;
  const isOver = hosts !== null && !fitsOneHost(type, hosts);
  if (isOver)
    warnings.push(
      `launches of ${type.name} are refused: no host of the region has that much; the largest have ${hostsText(hosts)}`,
    );
  const [model, ...others] = Object.keys(total.gpus);
  if (!isOver && type.gpuCount > 0 && model !== undefined && others.length === 0 && model !== type.gpuName)
    warnings.push(`the engine has no GPU of the model ${type.gpuName}; instances get ${model}, which it has`);
  const runtimes = probe?.capabilities.isolation.runtimes;
  if (runtimes && type.runtime !== undefined && !runtimes.includes(type.runtime))
    warnings.push(
      `the engine lacks the container runtime ${type.runtime} (it has: ${runtimes.join(', ') || 'none'}), so launches are refused until it is installed`,
    );
  const { tidePerHour, perHour } = type.pricesMicros;
  if (tidePerHour > perHour) warnings.push('an off-peak hour costs more than an hour');
  return warnings;
}

/** Facts of a region for administrators: names, place, domain, off-peak windows, prices. */
import {
  defaultStoragePrices,
  fromDollars,
  mapStoragePrices,
  storageKinds,
  toDollars,
  type StorageKind,
} from '../../domain/catalog.ts';
import { faultOfOffPeak, isOffPeak, type OffPeak } from '../../domain/off-peak.ts';
import { Refusal, regionNotFound } from '../../domain/refusal.ts';
import {
  countUsers,
  managedRegionById,
  writeManagedRegion,
  type ManagedRegion,
} from '../../store/tables/catalog-rows.ts';
import { recordStoragePrices } from '../../store/tables/price-changes.ts';
import type { Db } from '../../store/store.ts';
import type { Caller, Mutation } from '../base/caller.ts';
import {
  changeCatalog,
  recordChange,
  refuseStale,
  sentMembers,
  type Affected,
  type CatalogChangeDeps,
  type Versioned,
} from './catalog-change.ts';
import { refuseDate, refuseUndated, scheduledWarnings } from './scheduled-prices.ts';

export interface RegionFacts {
  regionId: string;
  version: number;
  name: string;
  value: string;
  location: string;
  domain: string;
  domainFrom: 'settings' | 'administrator';
  sshAddress: string;
  offPeak: ListedOffPeak | null;
  /** Dollars per GB and 30 days. */
  storagePrices: Record<StorageKind, number>;
  storagePricesFrom: 'default' | 'administrator';
}

export type ListedOffPeak = OffPeak & { now: boolean };

interface Fields {
  name?: string | undefined;
  value?: string | undefined;
  location?: string | undefined;
  domain?: string | null | undefined;
  offPeak?: OffPeak | null | undefined;
  storagePrices?: Record<StorageKind, number> | null | undefined;
}

export interface RegionAdministration {
  get(regionId: string): Promise<{ region: RegionFacts }>;
  /** With `fromMs` it sets `storagePrices` for that time; the answer is a preview. */
  update: Mutation<
    { regionId: string; fromMs?: number | undefined } & Versioned & Fields,
    { region: RegionFacts; affected: Affected; warnings: string[] }
  >;
}

export function makeRegionAdministration(deps: CatalogChangeDeps & { rewriteTexts: () => void }): RegionAdministration {
  const listed = ({ facts, version, ownDomain, settingsDomain, offPeak, ...region }: ManagedRegion): RegionFacts => ({
    regionId: facts.id,
    version,
    name: facts.name,
    value: facts.value,
    location: facts.location,
    domain: ownDomain ?? settingsDomain,
    domainFrom: ownDomain === null ? 'settings' : 'administrator',
    sshAddress: facts.sshAddress,
    offPeak: listedOffPeak(offPeak, deps.time.now()),
    storagePrices: mapStoragePrices(region.storagePrices, toDollars),
    storagePricesFrom: region.hasOwnStoragePrices ? 'administrator' : 'default',
  });

  return {
    async get(id) {
      const region = await managedRegionById(deps.store.read, id);
      if (!region) throw regionNotFound(id);
      return { region: listed(region) };
    },

    async update(caller, { regionId: id, version, dryRun, fromMs, ...fields }, idempotency) {
      const answer = await changeCatalog(deps, caller, idempotency, async (tx, regions, nowMs) => {
        const before = regions.find(({ facts }) => facts.id === id);
        if (!before) throw regionNotFound(id);
        refuseStale(`region ${before.facts.name}`, before.version, version, listed(before));
        const { domain: ownDomain = before.ownDomain, offPeak = before.offPeak, storagePrices, ...names } = fields;
        if (Object.keys(sentMembers(fields)).length === 0)
          throw new Refusal(
            'field_missing',
            'field "name" is not set; or send "value", "location", "domain", "offPeak" or "storagePrices"',
          );
        if (fromMs !== undefined) refuseUndatedStorage(fields);
        const fault = offPeak && faultOfOffPeak(offPeak);
        if (fault !== null) throw new Refusal('field_value', fault);
        const facts = { ...before.facts, ...sentMembers(names) };
        const next = { ...before, facts, ownDomain, offPeak, ...ownStoragePrices(storagePrices) };
        refuseTaken(regions, next);
        const affected = { ...(await countUsers(tx, { regionId: id })), atOtherPrice: 0 };
        const warnings =
          ownDomain !== null && ownDomain !== before.ownDomain
            ? [`Berth does not ask whether the gateway answers as ${ownDomain}: open a notebook there to see it`]
            : [];
        const of = { regionId: id, typeId: '' };
        if (storagePrices !== undefined) warnings.push(...(await scheduledWarnings(tx, of, fromMs ?? nowMs)));
        if (fromMs !== undefined) {
          await refuseDate(tx, of, { fromMs, nowMs });
          if (!dryRun) await schedule(tx, caller, next, { fromMs, nowMs });
          return { region: listed(next), affected, warnings };
        }
        const written = dryRun ? next : { ...next, version: version + 1 };
        if (!dryRun) {
          await writeManagedRegion(tx, written);
          await recordNewPrices(tx, before, written, { fromMs: nowMs, byAccountId: caller.accountId });
          const data = sentMembers(fields);
          await recordChange(tx, caller, { kind: 'region.updated', subjectId: id, data }, nowMs);
        }
        return { region: listed(written), affected, warnings };
      });
      deps.rewriteTexts();
      return answer;
    },
  };
}

const ownStoragePrices = (
  prices: Fields['storagePrices'],
): Partial<Pick<ManagedRegion, 'storagePrices' | 'hasOwnStoragePrices'>> => {
  if (prices === undefined) return {};
  if (prices === null) return { storagePrices: defaultStoragePrices, hasOwnStoragePrices: false };
  return { storagePrices: mapStoragePrices(prices, fromDollars), hasOwnStoragePrices: true };
};

function refuseUndatedStorage({ storagePrices, ...others }: Fields): void {
  refuseUndated(sentMembers(others), 'storagePrices');
  if (storagePrices === null)
    throw new Refusal(
      'field_value',
      'field "storagePrices" is null, and "fromUnixMs" is sent: send the four prices, or null without "fromUnixMs"',
    );
}

async function schedule(
  tx: Db,
  caller: Caller,
  { facts: { id: regionId, name }, storagePrices }: ManagedRegion,
  { fromMs, nowMs }: { fromMs: number; nowMs: number },
): Promise<void> {
  const change = { fromMs, regionId, byAccountId: caller.accountId, isScheduled: true };
  await recordStoragePrices(tx, change, storagePrices);
  const data = { name, regionId, fromUnixMs: fromMs };
  await recordChange(tx, caller, { kind: 'prices.scheduled', subjectId: regionId, data }, nowMs);
}

async function recordNewPrices(
  tx: Db,
  before: ManagedRegion,
  { facts, storagePrices }: ManagedRegion,
  at: { fromMs: number; byAccountId: string },
): Promise<void> {
  if (storageKinds.every((kind) => storagePrices[kind] === before.storagePrices[kind])) return;
  await recordStoragePrices(tx, { ...at, regionId: facts.id }, storagePrices);
}

export const listedOffPeak = (offPeak: OffPeak | null, nowMs: number): ListedOffPeak | null =>
  offPeak && { ...offPeak, now: isOffPeak(offPeak, nowMs) };

function refuseTaken(regions: readonly ManagedRegion[], { facts }: ManagedRegion): void {
  const others = regions.filter((other) => other.facts.id !== facts.id);
  for (const member of ['name', 'value'] as const) {
    const taken = others.find((other) => other.facts[member] === facts[member]);
    if (taken)
      throw new Refusal(
        'name_taken',
        `field "${member}" is ${JSON.stringify(facts[member])}, which region ${taken.facts.id} has; choose another`,
      );
  }
}

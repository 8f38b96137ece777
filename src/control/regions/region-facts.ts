/** Facts of a region for administrators: names, place, domain, off-peak windows, prices, engine. */
import {
  defaultStoragePrices,
  fromDollars,
  mapStoragePrices,
  storageKinds,
  toDollars,
  type Capacity,
  type StorageKind,
} from '../../domain/regions/catalog.ts';
import { faultOfOffPeak, isOffPeak, type OffPeak } from '../../domain/regions/off-peak.ts';
import type { RegionSettings } from '../../domain/regions/region-settings.ts';
import { Refusal, regionNotFound } from '../../domain/kernel/refusal.ts';
import {
  countUsers,
  managedRegionById,
  managedRegions,
  keepFormerName,
  writeManagedRegion,
  type ManagedRegion,
} from '../../store/tables/catalog-rows.ts';
import { windowsChanged } from '../../store/tables/due-acts.ts';
import { recordStoragePrices } from '../../store/tables/price-changes.ts';
import type { Db } from '../../store/store.ts';
import {
  changeCatalog,
  recordChange,
  refuseStale,
  sentMembers,
  type Affected,
  type CatalogChangeDeps,
  type Versioned,
} from './catalog-change.ts';
import {
  sealCredentials,
  tryChangedEngine,
  refuseFault,
  refuseSharedNamespace,
  type EngineFields,
  type Optional,
  type RegionEngineDeps,
} from './region-engine.ts';
import { refuseDate, refuseUndated, scheduledWarnings } from './scheduled-prices.ts';
import { CATALOG_FRESH_MS, type Caller, type Mutation, type Pager } from '../kernel/ports.ts';

export interface RegionFacts {
  regionId: string;
  version: number;
  retired: boolean;
  name: string;
  value: string;
  location: string;
  domain: string;
  domainFrom: 'settings' | 'administrator';
  sshAddress: string;
  /** Null: this machine's region, which the settings of the server describe. */
  settings: RegionSettings | null;
  hasCredentials: boolean;
  offPeak: ListedOffPeak | null;
  /** Dollars per GB and 30 days. */
  storagePrices: Record<StorageKind, number>;
  storagePricesFrom: 'default' | 'administrator';
}

export type ListedOffPeak = OffPeak & { now: boolean };

export interface RegionFields {
  name: string;
  value: string;
  location: string;
  domain?: string | null | undefined;
  offPeak?: OffPeak | null | undefined;
  storagePrices?: Record<StorageKind, number> | null | undefined;
}

export interface TriedEngine {
  version: string;
  capacity: Omit<Capacity, 'gpus'> & { gpus: number };
}

export interface RegionAdministration {
  get(regionId: string): Promise<{ region: RegionFacts }>;
  list(pager: Pager): Promise<{ regions: RegionFacts[]; totalEntries: number }>;
  /** Refuses a region whose engine does not answer. */
  create: Mutation<
    RegionFields & EngineFields & Pick<Versioned, 'dryRun'>,
    { region: RegionFacts; engine: TriedEngine; warnings: string[] }
  >;
  /** With `fromUnixMs` it sets `storagePrices` for that time; the answer is a preview. */
  update: Mutation<
    { regionId: string; fromUnixMs?: number | undefined } & Versioned & Optional<RegionFields & EngineFields>,
    { region: RegionFacts; affected: Affected; warnings: string[] }
  >;
  /** Refuses new launches and volumes, or takes them again. What is there stays. */
  retire: Mutation<
    { regionId: string; retired: boolean } & Versioned,
    { region: RegionFacts; affected: Affected; warnings: string[] }
  >;
}

export interface RegionAdministrationDeps extends CatalogChangeDeps, RegionEngineDeps {
  regions: CatalogChangeDeps['regions'];
  time: CatalogChangeDeps['time'] & RegionEngineDeps['time'];
  rewriteTexts: () => void;
}

export function makeRegionAdministration(deps: RegionAdministrationDeps): Omit<RegionAdministration, 'create'> {
  const listed = (region: ManagedRegion): RegionFacts => listedRegion(region, deps.time.now());

  return {
    async get(id) {
      const region = await managedRegionById(deps.store.read, id);
      if (!region) throw regionNotFound(id);
      return { region: listed(region) };
    },

    async list({ currentPage, pageSize }) {
      const { rows, totalEntries } = await managedRegions(deps.store.read, (currentPage - 1) * pageSize, pageSize);
      return { regions: rows.map(listed), totalEntries };
    },

    async update(caller, { regionId: id, version, dryRun, fromUnixMs: fromMs, ...fields }, idempotency) {
      const sent = sentMembers(fields);
      if (Object.keys(sent).length === 0)
        throw new Refusal(
          'field_missing',
          'field "name" is not set; or send "value", "location", "domain", "offPeak", "storagePrices", or a member of the engine',
        );
      if (fromMs !== undefined) refuseUndatedStorage(fields);
      refuseFault(fields.offPeak && faultOfOffPeak(fields.offPeak));
      const engine = await tryChangedEngine(deps, id, version, fields);
      const answer = await changeCatalog(deps, caller, idempotency, async (tx, regions, nowMs) => {
        const before = regions.find(({ facts }) => facts.id === id);
        if (!before) throw regionNotFound(id);
        refuseStale(`region ${before.facts.name}`, before.version, version, listed(before));
        const next = changedRegion(deps, before, fields);
        refuseTaken(regions, next);
        refuseSharedNamespace(regions, next);
        const affected = { ...(await countUsers(tx, { regionId: id })), atOtherPrice: 0 };
        const { ownDomain } = next;
        const warnings = [...(engine?.warnings ?? [])];
        if (ownDomain !== null && ownDomain !== before.ownDomain)
          warnings.push(
            `Berth does not ask whether the gateway answers as ${ownDomain}: open a notebook there to see it`,
          );
        const of = { regionId: id, typeId: '' };
        if (fields.storagePrices !== undefined) warnings.push(...(await scheduledWarnings(tx, of, fromMs ?? nowMs)));
        if (fromMs !== undefined) {
          await refuseDate(tx, of, { fromMs, nowMs });
          if (!dryRun) await schedule(tx, caller, next, { fromMs, nowMs });
          return { region: listed(next), affected, warnings };
        }
        const written = dryRun ? next : { ...next, version: version + 1 };
        if (!dryRun) {
          if (next.facts.name !== before.facts.name) await keepFormerName(tx, id, nowMs);
          await writeManagedRegion(tx, written);
          if (fields.offPeak !== undefined) await windowsChanged(tx, id, nowMs + CATALOG_FRESH_MS);
          await recordNewPrices(tx, before, written, { fromMs: nowMs, byAccountId: caller.accountId });
          const { credentials, ...data } = sent;
          const event = { ...data, ...(credentials === undefined ? {} : { credentials: 'changed' }) };
          await recordChange(tx, caller, { kind: 'region.updated', subjectId: id, data: event }, nowMs);
        }
        return { region: listed(written), affected, warnings };
      }).catch(async (error: unknown) => {
        await engine?.drop();
        throw error;
      });
      if (dryRun) await engine?.drop();
      else await engine?.serve();
      deps.rewriteTexts();
      return answer;
    },

    retire: (caller, { regionId: id, version, dryRun, retired }, idempotency) =>
      changeCatalog(deps, caller, idempotency, async (tx, regions, nowMs) => {
        const before = regions.find(({ facts }) => facts.id === id);
        if (!before) throw regionNotFound(id);
        refuseStale(`region ${before.facts.name}`, before.version, version, listed(before));
        const next = { ...before, isRetired: retired };
        const written = dryRun ? next : { ...next, version: version + 1 };
        if (!dryRun) {
          await writeManagedRegion(tx, written);
          const kind = retired ? 'region.retired' : 'region.offered';
          await recordChange(tx, caller, { kind, subjectId: id, data: { name: before.facts.name } }, nowMs);
        }
        const affected = { ...(await countUsers(tx, { regionId: id })), atOtherPrice: 0 };
        return { region: listed(written), affected, warnings: [] };
      }),
  };
}

export const listedRegion = (
  { facts, version, ownDomain, settingsDomain, offPeak, ...region }: ManagedRegion,
  nowMs: number,
): RegionFacts => ({
  regionId: facts.id,
  version,
  retired: region.isRetired,
  name: facts.name,
  value: facts.value,
  location: facts.location,
  domain: ownDomain ?? settingsDomain,
  domainFrom: ownDomain === null ? 'settings' : 'administrator',
  sshAddress: facts.sshAddress,
  settings: region.settings,
  hasCredentials: region.credentials !== null,
  offPeak: listedOffPeak(offPeak, nowMs),
  storagePrices: mapStoragePrices(region.storagePrices, toDollars),
  storagePricesFrom: region.hasOwnStoragePrices ? 'administrator' : 'default',
});

function changedRegion(
  deps: RegionAdministrationDeps,
  before: ManagedRegion,
  {
    domain,
    offPeak = before.offPeak,
    storagePrices,
    settings,
    credentials,
    ...names
  }: Optional<RegionFields & EngineFields>,
): ManagedRegion {
  const { id } = before.facts;
  return {
    ...before,
    facts: { ...before.facts, ...sentMembers(names) },
    ownDomain: domain === undefined ? before.ownDomain : domain,
    offPeak,
    settings: settings ?? before.settings,
    ...(credentials === undefined
      ? {}
      : { credentials: credentials === null ? null : sealCredentials(deps, id, credentials) }),
    ...ownStoragePrices(storagePrices),
  };
}

export const ownStoragePrices = (
  prices: RegionFields['storagePrices'],
): Partial<Pick<ManagedRegion, 'storagePrices' | 'hasOwnStoragePrices'>> => {
  if (prices === undefined) return {};
  if (prices === null) return { storagePrices: defaultStoragePrices, hasOwnStoragePrices: false };
  return { storagePrices: mapStoragePrices(prices, fromDollars), hasOwnStoragePrices: true };
};

function refuseUndatedStorage({ storagePrices, ...others }: Optional<RegionFields & EngineFields>): void {
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

export function refuseTaken(regions: readonly ManagedRegion[], { facts }: ManagedRegion): void {
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

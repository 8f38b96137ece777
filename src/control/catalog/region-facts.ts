/** Facts of a region for administrators: names, place, domain and off-peak windows. */
import { faultOfOffPeak, isOffPeak, type OffPeak } from '../../domain/off-peak.ts';
import { Refusal, regionNotFound } from '../../domain/refusal.ts';
import {
  countUsers,
  managedRegionById,
  writeManagedRegion,
  type ManagedRegion,
} from '../../store/tables/catalog-rows.ts';
import type { Mutation } from '../base/caller.ts';
import {
  changeCatalog,
  recordChange,
  refuseStale,
  sentMembers,
  type Affected,
  type CatalogChangeDeps,
  type Versioned,
} from './catalog-change.ts';

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
}

export type ListedOffPeak = OffPeak & { now: boolean };

interface Fields {
  name?: string | undefined;
  value?: string | undefined;
  location?: string | undefined;
  domain?: string | null | undefined;
  offPeak?: OffPeak | null | undefined;
}

export interface RegionAdministration {
  get(regionId: string): Promise<{ region: RegionFacts }>;
  update: Mutation<
    { regionId: string } & Versioned & Fields,
    { region: RegionFacts; affected: Affected; warnings: string[] }
  >;
}

export function makeRegionAdministration(deps: CatalogChangeDeps & { rewriteTexts: () => void }): RegionAdministration {
  const listed = ({ facts, version, ownDomain, settingsDomain, offPeak }: ManagedRegion): RegionFacts => ({
    regionId: facts.id,
    version,
    name: facts.name,
    value: facts.value,
    location: facts.location,
    domain: ownDomain ?? settingsDomain,
    domainFrom: ownDomain === null ? 'settings' : 'administrator',
    sshAddress: facts.sshAddress,
    offPeak: listedOffPeak(offPeak, deps.time.now()),
  });

  return {
    async get(id) {
      const region = await managedRegionById(deps.store.read, id);
      if (!region) throw regionNotFound(id);
      return { region: listed(region) };
    },

    async update(caller, { regionId: id, version, dryRun, ...fields }, idempotency) {
      const answer = await changeCatalog(deps, caller, idempotency, async (tx, regions, nowMs) => {
        const before = regions.find(({ facts }) => facts.id === id);
        if (!before) throw regionNotFound(id);
        refuseStale(`region ${before.facts.name}`, before.version, version, listed(before));
        const { domain: ownDomain = before.ownDomain, offPeak = before.offPeak, ...names } = fields;
        if (Object.keys(sentMembers(fields)).length === 0)
          throw new Refusal(
            'field_missing',
            'field "name" is not set; or send "value", "location", "domain" or "offPeak"',
          );
        const fault = offPeak && faultOfOffPeak(offPeak);
        if (fault !== null) throw new Refusal('field_value', fault);
        const next = { ...before, facts: { ...before.facts, ...sentMembers(names) }, ownDomain, offPeak };
        refuseTaken(regions, next);
        const affected = { ...(await countUsers(tx, { regionId: id })), atOtherPrice: 0 };
        const warnings =
          ownDomain !== null && ownDomain !== before.ownDomain
            ? [`Berth does not ask whether the gateway answers as ${ownDomain}: open a notebook there to see it`]
            : [];
        const written = dryRun ? next : { ...next, version: version + 1 };
        if (!dryRun) {
          await writeManagedRegion(tx, written);
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

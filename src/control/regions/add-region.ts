/** Adds a region: its engine is tried before the region is kept, and serves at once. */
import { countGpus, defaultStoragePrices } from '../../domain/regions/catalog.ts';
import { regionId } from '../../domain/kernel/ids.ts';
import { faultOfOffPeak } from '../../domain/regions/off-peak.ts';
import { engineKindOf, faultOfRegionSettings } from '../../domain/regions/region-settings.ts';
import { insertManagedRegion, type ManagedRegion } from '../../store/tables/catalog-rows.ts';
import { recordStoragePrices } from '../../store/tables/price-changes.ts';
import { changeCatalog, recordChange, refuseFull } from './catalog-change.ts';
import { refuseFault, refuseSharedNamespace, sealCredentials, tryRegion } from './region-engine.ts';
import {
  listedRegion,
  ownStoragePrices,
  refuseTaken,
  type RegionAdministration,
  type RegionAdministrationDeps,
} from './region-facts.ts';

export const makeAddRegion =
  (deps: RegionAdministrationDeps): RegionAdministration['create'] =>
  async (caller, { dryRun, ...fields }, idempotency) => {
    const { settings, sshAddress, credentials = null, domain = null, offPeak = null, storagePrices } = fields;
    refuseFault(offPeak && faultOfOffPeak(offPeak));
    refuseFault(faultOfRegionSettings(settings));
    const id = regionId(deps.randomUuid());
    const engine = await tryRegion(deps, { id, address: sshAddress, settings, secret: credentials });
    const { version, capacity } = engine.probe;
    const answer = await changeCatalog(deps, caller, idempotency, async (tx, regions, nowMs) => {
      refuseFull('regions', regions.length, 'region');
      const { name, value, location } = fields;
      const settingsDomain = regions.find((region) => region.settings === null)?.settingsDomain ?? '';
      const kind = engineKindOf(settings);
      const region: ManagedRegion = {
        facts: { id, name, value, location, domain: domain ?? settingsDomain, sshAddress, engine: kind },
        version: 1,
        settingsDomain,
        ownDomain: domain,
        offPeak,
        storagePrices: defaultStoragePrices,
        hasOwnStoragePrices: false,
        ...ownStoragePrices(storagePrices),
        settings,
        credentials: credentials === null ? null : sealCredentials(deps, id, credentials),
        isRetired: false,
      };
      refuseTaken(regions, region);
      refuseSharedNamespace(regions, region);
      if (!dryRun) {
        await insertManagedRegion(tx, region, engine.total);
        const at = { fromMs: nowMs, byAccountId: caller.accountId, regionId: id };
        await recordStoragePrices(tx, at, region.storagePrices);
        const data = { name, engine: kind };
        await recordChange(tx, caller, { kind: 'region.created', subjectId: id, data }, nowMs);
      }
      const offersNothing = `the region offers no instance types yet: create them with POST /api/admin/type/create {"regionId": "${id}", …}`;
      return {
        region: listedRegion(region, nowMs),
        engine: { version, capacity: { ...capacity, gpus: countGpus(capacity.gpus) } },
        warnings: [...engine.warnings, offersNothing],
      };
    }).catch(async (error: unknown) => {
      await engine.drop();
      throw error;
    });
    // The answer of an earlier request with the same key has another region.
    if (dryRun || answer.region.regionId !== id) await engine.drop();
    else await engine.serve();
    return answer;
  };

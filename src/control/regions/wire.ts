/** Regions with what they offer: types, images, prices and capacity. */
import {
  overlappingTask,
  task,
  type Kernel,
  type RegionDrivers,
  type StopAutomatically,
  type Task,
} from '../kernel/ports.ts';
import type { MeteredDeps } from '../money/ports.ts';
import type { FreeSpaceMonitor } from '../storage/ports.ts';
import { makeAddRegion } from './add-region.ts';
import { makeReturnCard, type ReturnCard } from './capacity/card-quarantine.ts';
import { makeCatalog, type Catalog } from './capacity/catalog.ts';
import { makeDrainStops } from './capacity/drain.ts';
import { makeFleet, type FleetDeps, type Fleet } from './capacity/fleet.ts';
import { makeFleetHistory, makeRecordUse, type FleetHistory } from './capacity/region-use.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { makeProbe, type ProbeDeps } from './capacity/probe.ts';
import { makeReclaimSpots } from './capacity/reclaim-spots.ts';
import { makeApplyPrices, makeDuePrices } from './due-prices.ts';
import { makeCheckImage } from './images/check-image.ts';
import { makeImagePulls } from './images/image-pulls.ts';
import { makeRecordFacts } from './images/known-images.ts';
import { makeImages, type Images } from './images/images.ts';
import { makeImageReconciler } from './images/reconcile-image.ts';
import { makeRegistries, type Registries } from './images/registries.ts';
import { makeOfferedImages, type OfferedImages } from './offered-images.ts';
import { makeOfferedTypes, type OfferedTypes } from './offered-types.ts';
import { makePriceHistory, type PriceHistory } from './price-history.ts';
import type { RegionEngineDeps } from './region-engine.ts';
import { makeRegionAdministration, type RegionAdministration } from './region-facts.ts';
import { makeRegionTexts } from './region-texts.ts';
import { makeWithdrawPrices } from './scheduled-prices.ts';

export interface RegionOptions
  extends Pick<ProbeDeps, 'onEngineAnswers' | 'reservesForGpus'>, Pick<RegionEngineDeps, 'openRegion'> {
  /** Whether accounts may use registries at loopback addresses; default no. */
  localRegistries?: boolean;
}

interface RegionTaskDeps extends Pick<FleetDeps, 'sampler'> {
  stopAutomatically: StopAutomatically;
  /** Finds what the engine has of a region's instances. */
  sweep: (drivers: RegionDrivers) => Promise<unknown>;
}

const PROBE = 'probe';
const PROBE_INTERVAL_MS = 10_000;
const RECLAIM_INTERVAL_MS = 1_000;
const REGION_TEXTS = 'region texts';
const REGION_TEXTS_INTERVAL_MS = 3_000;

export interface RegionsUseCases {
  catalog: Catalog;
  fleet: Fleet;
  fleetHistory: FleetHistory;
  returnCard: ReturnCard;
  images: Images;
  registries: Registries;
  priceHistory: PriceHistory;
  offeredTypes: OfferedTypes;
  offeredImages: OfferedImages;
  regionAdministration: RegionAdministration;
}

type Given = Kernel & Pick<MeteredDeps, 'metering'> & { freeSpace: FreeSpaceMonitor } & RegionOptions;

export function wireRegions(given: Given) {
  const localRegistries = given.localRegistries ?? false;
  const registries = makeRegistries({ ...given, localRegistries });
  const parts = {
    localRegistries,
    registries,
    imagePulls: makeImagePulls({ ...given, askMs: given.limits.imageCheckMs, onEnsured: makeRecordFacts(given) }),
    checkImage: makeCheckImage({ ...given, credentialsFor: registries.credentialsFor }),
  };
  const deps = { ...given, ...parts };
  const applyPrices = makeApplyPrices(deps);
  const useCases = (needs: RegionTaskDeps): RegionsUseCases => {
    const { scheduler, freeSpace } = deps;
    const ofRegions = {
      ...deps,
      rewriteTexts: () => scheduler.runSoon(REGION_TEXTS),
      async onServed() {
        await freeSpace.measure();
        scheduler.runSoon(PROBE);
      },
    };
    return {
      catalog: makeCatalog(deps),
      fleet: makeFleet({ ...deps, ...needs }),
      fleetHistory: makeFleetHistory(deps),
      returnCard: makeReturnCard({ ...deps, probeSoon: () => scheduler.runSoon(PROBE) }),
      images: makeImages(deps),
      registries,
      priceHistory: { ...makePriceHistory(deps), withdraw: makeWithdrawPrices(deps) },
      offeredTypes: makeOfferedTypes(deps),
      offeredImages: makeOfferedImages(deps),
      regionAdministration: { ...makeRegionAdministration(ofRegions), create: makeAddRegion(ofRegions) },
    };
  };
  const probeFor = ({ sweep, sampler }: RegionTaskDeps): (() => Promise<void>) =>
    makeProbe({
      ...deps,
      sampler,
      async onEngineAnswers(drivers, answer) {
        await deps.onEngineAnswers(drivers, answer);
        await sweep(drivers);
      },
    });
  const dueActs = (needs: Pick<RegionTaskDeps, 'stopAutomatically'>) => ({
    drain: makeDrainStops({ ...deps, ...needs }),
    prices: makeDuePrices(deps.store, applyPrices),
  });
  const tasks = (needs: Pick<RegionTaskDeps, 'sampler'>, probe: () => Promise<void>): Task[] => [
    overlappingTask(PROBE, PROBE_INTERVAL_MS, probe),
    task('reclaim spot instances', RECLAIM_INTERVAL_MS, makeReclaimSpots(deps)),
    task(REGION_TEXTS, REGION_TEXTS_INTERVAL_MS, makeRegionTexts(deps)),
    task('region use', MINUTE_MS, makeRecordUse({ ...deps, fleet: makeFleet({ ...deps, ...needs }) })),
  ];
  return {
    parts,
    useCases,
    tasks,
    dueActs,
    probeFor,
    applyPrices,
    reconcilers: { image: makeImageReconciler({ ...deps, credentialsFor: registries.credentialsFor }) },
  };
}

export type RegionParts = ReturnType<typeof wireRegions>['parts'];

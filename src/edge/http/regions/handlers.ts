/** Regions and their offers: types, images, registries, prices and capacity. */
import { countGpus, type Capacity } from '../../../domain/regions/catalog.ts';
import type { AnswerOf } from '../../../contract/routes.ts';
import type { Control, FleetRegion } from '../../../control/index.ts';
import { publicRegion } from '../../../domain/compute/public-instance.ts';
import type { UseOfResource, UsePoint } from '../../../domain/regions/region-use.ts';
import { MINUTE_MS } from '../../../domain/kernel/durations.ts';
import type { Drain } from '../../../domain/regions/drain.ts';
import { presented, type Handlers } from '../handler.ts';

type PriceChange = Awaited<ReturnType<Control['priceHistory']['list']>>['changes'][number];

const dated = ({ fromMs, ...change }: PriceChange) => ({ ...change, fromUnixMs: fromMs });

const publicDrain = (drain: Drain | null) =>
  drain && { reason: drain.reason, sinceUnixMs: drain.sinceMs, stopsAtUnixMs: drain.stopAtMs };

const GIB_IN_MIB = 1_024;
const rounded = (amount: number, decimals = 3): number => Math.round(amount * 10 ** decimals) / 10 ** decimals;

const useInUnits = ({ total, promised, used }: UseOfResource, perUnit: number) => ({
  total: rounded(total / perUnit),
  promised: rounded(promised / perUnit),
  used: used === null ? null : rounded(used / perUnit),
});

const publicHost = ({ cpuMilli, memoryMiB, gpus }: Capacity) => ({
  cpuCores: rounded(cpuMilli / 1_000),
  memoryGB: rounded(memoryMiB / GIB_IN_MIB),
  gpuNum: countGpus(gpus),
  gpuName: Object.keys(gpus).join(', '),
});

function fleetRegion({
  region,
  isRetired,
  drain,
  resources,
  hosts,
  present,
  gpus,
  pools,
  types,
  ...rest
}: FleetRegion): AnswerOf<'fleet'>['regions'][number] {
  const inUnits = ({ free, ...use }: FleetRegion['resources']['gpus'], perUnit: number) => ({
    ...useInUnits(use, perUnit),
    free: rounded(free / perUnit),
  });
  return {
    regionId: region.id,
    regionName: region.name,
    retired: isRetired,
    drain: publicDrain(drain),
    ...rest,
    cpuCores: inUnits(resources.cpuMilli, 1_000),
    memoryGB: inUnits(resources.memoryMiB, GIB_IN_MIB),
    gpuNum: inUnits(resources.gpus, 1),
    nodePorts: inUnits(resources.nodePorts, 1),
    largestHosts: (hosts ?? []).map(publicHost),
    presentHosts: present && publicHost(present),
    gpus: gpus.map(({ cardId, uuid, model, slice, facts, holder, isExact, figures, quarantine }, index) => ({
      index,
      cardId,
      uuid,
      model,
      ...(slice === undefined ? {} : { gpuSlice: slice }),
      holder: holder && {
        instanceId: holder.instanceId,
        name: holder.name,
        accountId: holder.ownerId,
        username: holder.ownerName,
      },
      holderIsExact: isExact,
      busyPercent: figures?.busyPercent ?? null,
      memoryUsedBytes: figures?.memoryUsedBytes ?? null,
      memoryTotalBytes: figures?.memoryTotalBytes ?? null,
      powerMilliwatts: figures?.powerMilliwatts ?? null,
      temperatureCelsius: figures?.temperatureCelsius ?? null,
      slowedBy: [...(figures?.slowedBy ?? [])],
      driverVersion: facts?.driverVersion ?? null,
      cudaVersion: facts?.cudaVersion ?? null,
      numaNode: facts?.numaNode ?? null,
      links: Object.entries(facts?.links ?? {}).map(([to, kind]) => ({ uuid: to, kind })),
      quarantine: quarantine.map(({ reason }) => reason),
      findings: quarantine.map(({ reason, evidence, sinceMs }) => ({ reason, evidence, sinceUnixMs: sinceMs })),
    })),
    pools: pools.map(({ fileSystem, ...pool }) => ({
      name: pool.name,
      totalGB: rounded(pool.totalGB),
      promisedGB: rounded(pool.promisedGB),
      freeGB: rounded(pool.freeGB),
      usedGB: rounded(pool.usedGB),
      fileSystemGB: fileSystem && rounded(fileSystem.totalGB),
      fileSystemFreeGB: fileSystem && rounded(fileSystem.freeGB),
    })),
    types: types.map(({ type, fitsNow }) => ({
      instanceTypeId: type.id,
      instanceTypeName: type.name,
      gpuNum: type.gpuCount,
      gpuName: type.gpuName,
      isSpot: type.isSpot,
      fitsNow,
    })),
  };
}

const useStep = ({ atMs, cpuMilli, memoryMiB, gpuMilli, diskGB }: UsePoint) => ({
  atUnixMs: atMs,
  cpuCores: useInUnits(cpuMilli, 1_000),
  memoryGB: useInUnits(memoryMiB, GIB_IN_MIB),
  gpuNum: useInUnits(gpuMilli, 1_000),
  diskGB: useInUnits(diskGB, 1),
});

export const regionHandlers = (control: Control) => {
  const { catalog, fleet, fleetHistory, images, registries, operator, priceHistory } = control;
  const { offeredTypes, offeredImages, regionAdministration, returnCard } = control;
  return {
    catalog: presented(catalog.families, (instanceInfos) => ({ instanceInfos })),
    async listRegions() {
      const regions = (await catalog.regions()).map(({ region, drain, ...rest }) => ({
        ...publicRegion(region),
        ...rest,
        drain: publicDrain(drain),
      }));
      return { regions };
    },
    returnCard,
    async fleetHistory(_, request) {
      const { stepMs, points } = await fleetHistory.read(request);
      return { stepSeconds: stepMs / 1_000, steps: points.map(useStep) };
    },
    fleet: presented(fleet.read, (regions) => ({ regions: regions.map(fleetRegion) })),
    async drainRegion(caller, { stopRunningAfterMinutes: minutes, ...body }, idempotency) {
      const request = { ...body, stopRunningAfterMs: minutes === undefined ? undefined : minutes * MINUTE_MS };
      const { regionId, drain } = await operator.drain(caller, request, idempotency);
      return { regionId, drain: publicDrain(drain) };
    },

    listImages: (caller, { pager }) => images.list(caller, pager),
    createImage: images.create,
    saveImage: images.save,
    deleteImage: images.delete,
    refreshImage: images.refresh,
    createRegistry: registries.create,
    listRegistries: registries.list,
    deleteRegistry: registries.delete,

    listTypes: (_, { pager }) => offeredTypes.list(pager),
    createType: offeredTypes.create,
    updateType: offeredTypes.update,
    retireType: offeredTypes.retire,
    listCatalogImages: (_, { pager }) => offeredImages.list(pager),
    createCatalogImage: offeredImages.create,
    updateCatalogImage: offeredImages.update,
    refreshCatalogImage: offeredImages.refresh,
    retireCatalogImage: offeredImages.retire,
    listManagedRegions: (_, { pager }) => regionAdministration.list(pager),
    getRegion: (_, { regionId }) => regionAdministration.get(regionId),
    createRegion: regionAdministration.create,
    updateRegion: regionAdministration.update,
    retireRegion: regionAdministration.retire,

    async listPrices(_, { pager, ...filter }) {
      const { changes, totalEntries } = await priceHistory.list(filter, pager);
      return { changes: changes.map(dated).map(({ byAccountId: _by, ...change }) => change), totalEntries };
    },
    async listPriceChanges(_, { pager, ...filter }) {
      const { changes, totalEntries } = await priceHistory.list(filter, pager);
      return { changes: changes.map(dated), totalEntries };
    },
    withdrawPrices: presented(priceHistory.withdraw, ({ change }) => ({ change: dated(change) })),
  } satisfies Partial<Handlers['closed']>;
};

/** What can be launched, where and at what price; what each region's engine can do. */
import { capacityOf, chargeModes, fits, type InstanceType } from '../domain/catalog.ts';
import { toDollars } from '../domain/money.ts';
import type { CountedRegion } from '../store/catalog.ts';
import type { Catalog, CatalogFamily } from './control.ts';
import type { ImageWork } from './image-work.ts';
import type { Offers } from './offers.ts';
import type { Regions } from './regions.ts';

export interface CatalogNeeds {
  offers: () => Promise<Offers>;
  regions: Regions;
  imageWork: ImageWork;
}

export const makeCatalog = ({ offers, regions, imageWork }: CatalogNeeds): Catalog => ({
  async families() {
    const { types, regions: counted } = await offers();
    return familiesOf([...types.values()], counted);
  },

  async images({ currentPage, pageSize }) {
    const images = [...(await offers()).images.values()];
    const offset = (currentPage - 1) * pageSize;
    return {
      images: images.slice(offset, offset + pageSize).map((image) => ({
        imageId: image.id,
        name: image.name,
        architecture: image.architecture,
        isPublic: String(image.isPublic),
        tags: image.tags.length > 0 ? image.tags : null,
        type: image.type,
        ...imageWork.stateOf(image.ref),
      })),
      totalEntries: images.length,
    };
  },

  async regions() {
    const counted = (await offers()).regions;
    return regions.all().flatMap(({ regionId, seen, storage }) => {
      const region = counted.get(regionId)?.region;
      if (!region) return [];
      const volumes = storage.capabilities();
      return [
        {
          region,
          engine: { name: seen.probe?.version ?? region.engine, answers: seen.answers, text: seen.text },
          capabilities: {
            ...seen.probe?.capabilities,
            volumeSizeLimit: volumes.sizeLimit,
            dataDiskSizeLimit: volumes.sizeLimit,
            volumeSnapshots: volumes.snapshots,
          },
        },
      ];
    });
  },
});

/** Types by GPU name and spot, then by region; spot is a family of its own. Pure. */
export function familiesOf(
  types: readonly InstanceType[],
  regions: ReadonlyMap<string, CountedRegion>,
): CatalogFamily[] {
  const families = new Map<string, CatalogFamily>();
  for (const type of types) {
    const counted = regions.get(type.regionId);
    if (!counted) continue;
    const key = `${type.isSpot}/${type.gpuName}`;
    const family = families.get(key) ?? { gpuName: type.gpuName, isSpotInstance: type.isSpot, regionInfos: [] };
    families.set(key, family);
    let place = family.regionInfos.find(({ regionId }) => regionId === type.regionId);
    if (!place) {
      place = { regionId: type.regionId, regionName: counted.region.name, instanceTypeInfos: [] };
      family.regionInfos.push(place);
    }
    place.instanceTypeInfos.push({
      instanceTypeId: type.id,
      gpuNum: type.gpuCount,
      stockStatus: inStock(type, counted) ? 'InStock' : 'OutOfStock',
      price: chargeModes.map((chargeMode) => ({ chargeMode, price: toDollars(type.pricesMicros[chargeMode]) })),
      instanceTypeName: type.name,
      cpuCores: type.cpuCores,
      memoryGB: type.memoryGB,
      rootDiskGB: type.rootDiskGB,
      dataDiskGB: type.dataDiskGB,
    });
  }
  return [...families.values()];
}

const inStock = (type: InstanceType, { total, used }: CountedRegion): boolean =>
  used.nodePorts < total.nodePorts &&
  fits(capacityOf(type), {
    cpuMilli: total.cpuMilli - used.cpuMilli,
    memoryMiB: total.memoryMiB - used.memoryMiB,
    gpus: total.gpus - used.gpus,
  });

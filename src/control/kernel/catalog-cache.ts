/** Caches the operator's catalog for a second: each launch reads it, and it rarely changes. */
import { makeCache } from '../../async/cache.ts';
import type { Image, InstanceType } from '../../domain/regions/catalog.ts';
import {
  regionsWithUsage,
  catalogImages,
  catalogInstanceTypes,
  type RegionWithUsage,
} from '../../store/tables/catalog.ts';
import type { Store } from '../../store/store.ts';
import type { Time } from './time.ts';

export const CATALOG_FRESH_MS = 1000;

export interface CatalogSnapshot {
  images: ReadonlyMap<string, Image>;
  types: ReadonlyMap<string, InstanceType>;
  /** Usage may be a second old; the launch's guarded update decides. */
  regions: ReadonlyMap<string, RegionWithUsage>;
}

export interface CatalogCache {
  readCatalog: () => Promise<CatalogSnapshot>;
  /** After a change of the catalog by this process; others see it within a second. */
  forgetCatalog: () => void;
}

export function makeCatalogCache({ store, time }: { store: Store; time: Time }): CatalogCache {
  const load = async (): Promise<CatalogSnapshot> => {
    const [images, types, regions] = await Promise.all([
      catalogImages(store.read),
      catalogInstanceTypes(store.read),
      regionsWithUsage(store.read),
    ]);
    return {
      images: new Map(images.map((image) => [image.id, image])),
      types: new Map(types.map((type) => [type.id, type])),
      regions: new Map(regions.map((counted) => [counted.region.id, counted])),
    };
  };
  const cache = makeCache({ load, elapsed: () => time.elapsed(), ttlMs: CATALOG_FRESH_MS, maxEntries: 1 });
  return { readCatalog: () => cache.get('catalog'), forgetCatalog: () => cache.invalidateKey('catalog') };
}

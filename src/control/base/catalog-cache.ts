/** The operator's catalog, read from the store at most once a second: it is asked at each launch and changes a few times a year. */
import { makeCache } from '../../async/cache.ts';
import type { Image, InstanceType } from '../../domain/catalog.ts';
import {
  regionsWithUsage,
  catalogImages,
  catalogInstanceTypes,
  type RegionWithUsage,
} from '../../store/tables/catalog.ts';
import type { Store } from '../../store/store.ts';
import type { Time } from './time.ts';

const FRESH_MS = 1000;

export interface CatalogSnapshot {
  images: ReadonlyMap<string, Image>;
  types: ReadonlyMap<string, InstanceType>;
  /** Counts in it may be a second old: the launch's own guarded count decides. */
  regions: ReadonlyMap<string, RegionWithUsage>;
}

export function makeCatalogCache({ store, time }: { store: Store; time: Time }): () => Promise<CatalogSnapshot> {
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
  const cache = makeCache({ load, now: () => time.elapsed(), ttlMs: FRESH_MS, maxEntries: 1 });
  return () => cache.get('catalog');
}

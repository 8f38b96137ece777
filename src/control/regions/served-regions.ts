/** Settings and opened credentials of the regions that are served, for the gateway process. */
import type { OpenRegion, RegionToOpen } from './region-engine.ts';
import type { RegionDrivers, Regions } from '../kernel/ports.ts';

export interface ServedRegions {
  /** Opens drivers as before, and remembers what they were opened with. */
  openRegion: OpenRegion;
  /** Regions that administrators added. */
  current(): readonly RegionToOpen[];
  /** Calls back after each change. Returns the unsubscribe function. */
  onChange(listener: () => void): () => void;
}

export function makeServedRegions(openRegion: OpenRegion, regions: Pick<Regions, 'follow'>): ServedRegions {
  // Drivers that were only tried are forgotten with their object.
  const openedWith = new WeakMap<RegionDrivers, RegionToOpen>();
  const served = new Map<string, RegionToOpen>();
  const listeners = new Set<() => void>();
  regions.follow((drivers) => {
    const region = openedWith.get(drivers);
    if (region === undefined) return;
    served.set(region.id, region);
    for (const listener of listeners) listener();
  });
  return {
    async openRegion(region) {
      const drivers = await openRegion(region);
      openedWith.set(drivers, region);
      return drivers;
    },
    current: () => [...served.values()],
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

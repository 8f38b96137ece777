/** Drivers of each region: the engine of containers, the storage of disks, and the last health. */
import type { InstanceNetwork } from '../../domain/compute/own-variables.ts';
import type { RegionId } from '../../domain/kernel/ids.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { Engine, Probe, RegistryCredentials } from '../../engines/contract.ts';
import type { PoolRules, Space } from '../../domain/storage/pool.ts';
import type { PoolName } from '../../domain/storage/disk.ts';
import type { Storage } from '../../storage/contract.ts';

export interface PoolDrivers extends PoolRules {
  name: PoolName;
  storage: Storage;
  /** Last measurement; null before the first, and while the pool's path is missing. */
  space: Space | null;
  /** Measured with `space`: what promised disks have not written, and the host keeps free. */
  unwrittenBytes: number;
}

export interface RegionDrivers {
  regionId: RegionId;
  engine: Engine;
  pools: readonly PoolDrivers[];
  /** Size of an account's shared folder; null: instances have none. */
  sharedDiskGB: number | null;
  nodePortRange: { first: number; last: number };
  nodePortAddress: string;
  /** Folder of common data, mounted read-only on request; null: such a launch is refused. */
  commonDataFolder: string | null;
  cpuOvercommit: number;
  /** Memory of the engine's machine that instances never get. */
  hostMemoryMiB: number;
  /** Prefix of archived root disks, in the engine's store or, if `archivePushed`, in a registry. */
  archivePrefix: string;
  archivePushed: boolean;
  /** Prefix of images saved from instances; pushed when archives are. */
  savedPrefix: string;
  archiveCredentials?: RegistryCredentials | undefined;
  startScript: string;
  /** Settings of Jupyter's server: `images/jupyter_server_config.py`. */
  jupyterConfig: string;
  instanceNetwork?: InstanceNetwork | undefined;
  /** `probe`: the last answer; null before the first. */
  health: { probe: Probe | null; answers: boolean; text: string };
}

export interface Regions {
  all(): readonly RegionDrivers[];
  of(regionId: string): RegionDrivers;
  /** Replaces the drivers of the region, and returns them. */
  put(drivers: RegionDrivers): RegionDrivers | undefined;
  /** Calls with all drivers, now and as they are put. */
  follow(onDrivers: (drivers: RegionDrivers) => void): void;
}

export function makeRegions(drivers: readonly RegionDrivers[]): Regions {
  const byId = new Map<string, RegionDrivers>(drivers.map((one) => [one.regionId, one]));
  const followers: ((drivers: RegionDrivers) => void)[] = [];
  let all = [...byId.values()];
  return {
    all: () => all,
    put(one) {
      const before = byId.get(one.regionId);
      byId.set(one.regionId, one);
      all = [...byId.values()];
      for (const follower of followers) follower(one);
      return before;
    },
    follow(onDrivers) {
      followers.push(onDrivers);
      for (const one of all) onDrivers(one);
    },
    of(id) {
      const found = byId.get(id);
      if (!found)
        throw new Refusal(
          'unavailable',
          `region ${id} has no engine on this server; configure one, or use another region`,
        );
      return found;
    },
  };
}

/** Root disks of an engine; before its first answer, the facts that restrict changes most. */
export const rootDiskFacts = ({ health: { probe } }: Pick<RegionDrivers, 'health'>) => ({
  rootDiskLimit: probe?.capabilities.rootDiskLimit ?? ('hard' as const),
  keepsRootDisk: probe?.capabilities.keepsRootDisk ?? true,
});

/**
 * Returns a run of the work in all regions at once, except where it still runs: a region that hangs
 * or fails delays no other. Rejects with the first failure, when all have ended.
 */
export function makeEachRegion(
  regions: Pick<Regions, 'all'>,
  work: (drivers: RegionDrivers) => Promise<void>,
): () => Promise<void> {
  const underWay = new Set<RegionDrivers>();
  const runIn = async (drivers: RegionDrivers): Promise<void> => {
    underWay.add(drivers);
    try {
      await work(drivers);
    } finally {
      underWay.delete(drivers);
    }
  };
  return async () => {
    const idle = regions.all().filter((drivers) => !underWay.has(drivers));
    const failed = (await Promise.allSettled(idle.map(runIn))).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  };
}

/** Passes an engine without an answer yet: the reconciler finds out. */
export function refuseWithoutSaving({ regionId, health }: RegionDrivers): void {
  if (health.probe?.capabilities.saveImage !== false) return;
  const { whyNoSaveImage } = health.probe.capabilities;
  const why = whyNoSaveImage === undefined ? '' : `: ${whyNoSaveImage}`;
  throw new Refusal(
    'unsupported',
    `the engine of region ${regionId} cannot save instances as images${why}; store your files on a volume`,
  );
}

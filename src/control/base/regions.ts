/** Drivers of each region: the engine of containers, the storage of disks, and the last health. */
import type { InstanceNetwork } from '../../domain/own-variables.ts';
import type { RegionId } from '../../domain/ids.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { Engine, Probe, RegistryCredentials } from '../../engines/contract.ts';
import type { PoolRules, Space } from '../../domain/pool.ts';
import type { PoolName } from '../../domain/disk.ts';
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
  sharedDiskGB: number;
  nodePortRange: { first: number; last: number };
  nodePortAddress: string;
  commonDataFolder: string;
  /** Prefix of archived root disks, in the engine's store or, if `archivePushed`, in a registry. */
  archivePrefix: string;
  archivePushed: boolean;
  /** Prefix of images saved from instances; pushed when archives are. */
  savedPrefix: string;
  archiveCredentials?: RegistryCredentials | undefined;
  startScript: string;
  instanceNetwork?: InstanceNetwork | undefined;
  /** `probe`: the last answer; null before the first. */
  health: { probe: Probe | null; answers: boolean; text: string };
}

export interface Regions {
  all(): readonly RegionDrivers[];
  of(regionId: string): RegionDrivers;
}

export function makeRegions(drivers: readonly RegionDrivers[]): Regions {
  const byId = new Map<string, RegionDrivers>(drivers.map((one) => [one.regionId, one]));
  return {
    all: () => drivers,
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

/** Passes an engine without an answer yet: the reconciler finds out. */
export function refuseWithoutSaving({ regionId, health }: RegionDrivers): void {
  if (health.probe?.capabilities.saveImage !== false) return;
  throw new Refusal(
    'unsupported',
    `the engine of region ${regionId} cannot save instances as images; store your files on a volume`,
  );
}

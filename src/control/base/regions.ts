/** The hands of each region: which engine holds its containers, which storage its disks, and what was last seen of them. */
import type { RegionId } from '../../domain/ids.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { Engine, Probe, RegistryCredentials } from '../../engines/contract.ts';
import type { PoolRules, Space } from '../../domain/pool.ts';
import type { PoolName } from '../../domain/disk.ts';
import type { Storage } from '../../storage/contract.ts';

export interface PoolDrivers extends PoolRules {
  name: PoolName;
  storage: Storage;
  /** As last looked at; null before, and while its place is not there. */
  space: Space | null;
}

export interface RegionDrivers {
  regionId: RegionId;
  engine: Engine;
  pools: readonly PoolDrivers[];
  /** Size of the folder that an account's instances share. */
  sharedDiskGB: number;
  nodePortRange: { first: number; last: number };
  /** Address of the host on which node ports are published. */
  nodePortAddress: string;
  /** Folder of the operator's read-only data sets. */
  commonDataFolder: string;
  /** Begins the names of archived root disks: of the local store, or of the operator's registry when `archivePushed`. */
  archivePrefix: string;
  archivePushed: boolean;
  /** The same for images saved from instances; they are pushed when archives are. */
  savedPrefix: string;
  /** For the operator's registry. */
  archiveCredentials?: RegistryCredentials | undefined;
  /** Text of `images/start.sh`, the entry point of every instance. */
  startScript: string;
  /** The last answer of the engine's probe; null while it never answered. */
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

/** Of a wish that keeps a root disk. An engine that has not answered yet may: its pass finds out. */
export function refuseWithoutSaving({ regionId, health }: RegionDrivers): void {
  if (health.probe?.capabilities.saveImage !== false) return;
  throw new Refusal(
    'unsupported',
    `the engine of region ${regionId} can't save instances as images; keep what you need on a volume`,
  );
}

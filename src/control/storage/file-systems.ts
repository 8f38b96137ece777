/** Reads the file systems of a region's root disks and pools; warns where they are one. */
import { sharedFileSystemText, type Space } from '../../domain/storage/pool.ts';
import { raceAbort } from '../../async/abort.ts';
import { deadlineWithin, type TaskDeps, type PoolDrivers, type RegionDrivers } from '../kernel/ports.ts';

export interface FileSystem {
  space: Space;
  pools: PoolDrivers[];
  holdsRoots: boolean;
}

export interface FileSystemDeps extends Pick<TaskDeps, 'time' | 'stopping' | 'log'> {
  dataSpace: () => Promise<Space>;
}

const DEADLINE_MS = 5_000;

/** Returns a reader of file systems by key, without those that do not answer. */
export function makeFileSystemReader(deps: FileSystemDeps) {
  const warned = new Set<string>();

  const spaceOf = (read: (signal: AbortSignal) => Promise<Space | null>): Promise<Space | null> => {
    const signal = deadlineWithin(deps, DEADLINE_MS);
    return raceAbort(read(signal), signal).catch(() => null);
  };

  /** Called once per region and process, when the engine first answers. */
  async function warnOfSharing(regionId: string, roots: FileSystem): Promise<void> {
    warned.add(regionId);
    const data = await spaceOf(() => deps.dataSpace());
    const withDatabase = data?.device !== undefined && data.device === roots.space.device;
    const text = sharedFileSystemText(
      roots.pools.map(({ name }) => name),
      withDatabase,
    );
    if (text !== null) deps.log.warn({ region: regionId }, text);
  }

  return async ({ regionId, engine, pools }: RegionDrivers): Promise<Map<string, FileSystem>> => {
    const fileSystems = new Map<string, FileSystem>();
    const add = (space: Space | null, name: string): FileSystem | null => {
      if (space === null) return null;
      const key = `${regionId} ${space.device ?? name}`;
      const system = fileSystems.get(key) ?? { space, pools: [], holdsRoots: false };
      fileSystems.set(key, system);
      return system;
    };
    const roots = add(await spaceOf((signal) => engine.rootDiskSpace(signal)), 'engine');
    if (roots) roots.holdsRoots = true;
    for (const pool of pools) add(await spaceOf(() => pool.storage.space()), pool.name)?.pools.push(pool);
    if (roots && !warned.has(regionId)) await warnOfSharing(regionId, roots);
    return fileSystems;
  };
}

/**
 * Disk pools of the default region. The storage engine of a pool is chosen at first use and stored:
 * disks of one engine are unusable by another.
 */
import { mkdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Logger } from 'pino';
import type { PoolDrivers } from '../control/kernel/regions.ts';
import { diskKey, poolNames, type DiskId, type PoolName } from '../domain/storage/disk.ts';
import { settingOf } from '../domain/storage/pool.ts';
import { makeDirectoryStorage } from '../storage/directory/directory.ts';
import type { Storage } from '../storage/contract.ts';
import { makeImageFileStorage, probeImageFiles } from '../storage/image-file/image-file.ts';
import { thawFileSystems } from '../storage/image-file/image-mounts.ts';
import { canAllocateBlocks, canReflink, prepareRoot, type DiskRoot } from '../storage/layout.ts';
import { hasDisks, markProvisioned } from '../store/tables/disks.ts';
import { saveSetting, setting } from '../store/tables/catalog.ts';
import type { Store } from '../store/store.ts';
import type { Config } from './config.ts';
import { MAX_GB, type PoolConfig, type StorageEngine } from './disk-config.ts';

/** No client test reaches this limit. */
const SIMULATED_POOL: PoolConfig = {
  path: null,
  engine: 'directory',
  sizeGB: MAX_GB,
  overcommit: 1,
  thick: null,
};

const DEFAULT_POOL: PoolConfig = { path: null, engine: null, sizeGB: null, overcommit: 1, thick: null };

/** Lets the next use create the disks that the operator declared lost again, empty. */
export async function allowEmptyReplacements(
  store: Store,
  disks: readonly DiskId[],
  log: Pick<Logger, 'warn'>,
): Promise<void> {
  if (disks.length === 0) return;
  await store.write((tx) => markProvisioned(tx, disks, false));
  log.warn({ disks: disks.map(diskKey) }, 'disks are declared lost: missing ones will be created again, empty');
}

interface PoolDeps {
  config: Pick<Config, 'dataFolder' | 'pools' | 'engine' | 'diskOvercommit' | 'diskReserveShare' | 'accountPoolShare'>;
  store: Store;
  installation: string;
  log: Logger;
}

/** Throws an Error that says what is wrong with a pool's settings and what works. */
export async function makePools(deps: PoolDeps): Promise<PoolDrivers[]> {
  const { config, store } = deps;
  const made: PoolDrivers[] = [];
  const unsized = new Map<number, PoolName>();
  for (const name of poolNames) {
    const configured = config.pools[name];
    if (configured === null && name !== 'default') {
      if (await hasDisks(store.read, name))
        throw new Error(`The pool ${name} holds disks and is no longer configured: set ${settingOf(name)} as before`);
      continue;
    }
    const { path, engine, thick, ...limits } =
      configured ?? (config.engine === 'simulated' ? SIMULATED_POOL : DEFAULT_POOL);
    const root = path ?? join(config.dataFolder, name === 'default' ? 'disks' : `disks-${name}`);
    const rules = { ...limits, diskOvercommit: config.diskOvercommit, accountShare: config.accountPoolShare };
    const storage = await storageOf(deps, name, root, { engine, thick: rules.overcommit > 1 ? false : thick });
    if (rules.sizeGB === null) await refuseSharedFileSystem(unsized, name, root);
    made.push({ name, storage, ...rules, space: null, unwrittenBytes: 0 });
  }
  return made;
}

/** Two pools without a size on one file system would both allocate all of it. */
async function refuseSharedFileSystem(unsized: Map<number, PoolName>, name: PoolName, root: string): Promise<void> {
  const found = await stat(root).catch(() => null);
  if (!found) return;
  const other = unsized.get(found.dev);
  if (other !== undefined)
    throw new Error(
      `The pools ${other} and ${name} are on one file system, and each would allocate all of it: set size=<GB> in ${settingOf(name)} or ${settingOf(other)}`,
    );
  unsized.set(found.dev, name);
}

async function storageOf(
  { config, store, installation, log }: PoolDeps,
  name: PoolName,
  root: string,
  { engine: wanted, thick }: Pick<PoolConfig, 'engine' | 'thick'>,
): Promise<Storage> {
  await mkdir(dirname(root), { recursive: true });
  // The kernel's path: mounts are looked up by it.
  const place = { root: await realPathOf(root), installation, reserveShare: config.diskReserveShare };
  const engine = (await setting(store.read, `pool.${name}`)) ?? (await chooseEngine(place, name, wanted, log));
  if (wanted !== null && wanted !== engine) {
    const text = `the disks in ${root} are made by ${engine}, and ${wanted} cannot use them`;
    throw new Error(
      `${settingOf(name)} says engine=${wanted}, but ${text}: set engine=${engine}, or use an empty folder`,
    );
  }
  // Stored after the folder exists: from now on a missing folder is never replaced by an empty one.
  await store.write((tx) => saveSetting(tx, `pool.${name}`, engine));
  if (engine === 'directory') return makeDirectoryStorage(place);
  await thawFileSystems(place.root);
  const atomic = thick !== true && (await canReflink(root));
  const canAllocate = await canAllocateBlocks(root);
  if (thick === true && !canAllocate)
    throw new Error(
      `${settingOf(name)} says thick=yes, but the file system of ${root} allocates blocks at every write: leave thick out, or use ext4 or XFS`,
    );
  return makeImageFileStorage({
    ...place,
    copies: atomic ? 'atomic' : 'live',
    thick: thick ?? (canAllocate && !atomic),
  });
}

/** Also for a folder that does not exist yet. */
const realPathOf = async (path: string): Promise<string> =>
  realpath(path).catch(async () => join(await realpath(dirname(path)), basename(path)));

/** Creates the folder, and detects which engine works there. */
async function chooseEngine(
  at: DiskRoot,
  name: PoolName,
  wanted: StorageEngine | null,
  log: Logger,
): Promise<StorageEngine> {
  await prepareRoot(at);
  if (wanted === 'directory') return wanted;
  const whyNot = await probeImageFiles(at);
  if (whyNot === null) return 'image-file';
  if (wanted === 'image-file')
    throw new Error(`${settingOf(name)} says engine=image-file, which does not work here: ${whyNot}`);
  log.warn({ pool: name, why: whyNot }, 'disks are plain folders here: sizes are measured but not enforced');
  return 'directory';
}

/**
 * The pools of the default region, as configured, each with the storage of its place. By which engine the disks of a place are made is
 * settled when it is first used and written down: the disks of one engine are nothing to the other.
 */
import { mkdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { PoolDrivers } from '../control/base/regions.ts';
import { poolNames, type PoolName, type PoolRules } from '../domain/pool.ts';
import { makeDirectoryStorage } from '../storage/directory/directory.ts';
import type { Storage } from '../storage/contract.ts';
import { makeImageFileStorage, whyNoImageFiles } from '../storage/image-file/image-file.ts';
import { releaseWriters } from '../storage/image-file/reflink.ts';
import { canReflink, makeRoot, type Root } from '../storage/layout.ts';
import { hasDisks } from '../store/tables/disks.ts';
import { saveSetting, setting } from '../store/tables/catalog.ts';
import type { Store } from '../store/store.ts';
import type { Config } from './config.ts';

const storageEngines = ['image-file', 'directory'] as const;
export type StorageEngine = (typeof storageEngines)[number];

/** What the environment says of one pool; null of a member is the default. */
export interface PoolConfig extends PoolRules {
  path: string | null;
  engine: StorageEngine | null;
}

const EXAMPLE = 'path=/srv/fast,engine=image-file,size=2000,overcommit=1.5';
const MAX_GB = 10_000_000;
const MAX_OVERCOMMIT = 1_000;

const members = z.strictObject({
  path: z.string().startsWith('/').optional(),
  engine: z.enum(storageEngines).optional(),
  size: z.coerce.number().int().min(1).max(MAX_GB).optional(),
  overcommit: z.coerce.number().min(1).max(MAX_OVERCOMMIT).optional(),
});

/** `path=…,engine=image-file|directory,size=<GB>,overcommit=<times>`, each of them optional. */
export const poolConfig = z.string().transform((text, ctx): PoolConfig => {
  const pairs = text.split(',').map((part) => part.trim().split('='));
  const read = members.safeParse(Object.fromEntries(pairs.map(([name = '', ...value]) => [name, value.join('=')])));
  const twice = new Set(pairs.map(([name]) => name)).size !== pairs.length;
  if (!read.success || twice) {
    const why = twice ? 'a member is named twice' : (read.error?.issues[0]?.message ?? '');
    const message = `must be such as ${EXAMPLE}: an absolute path, whole GB, and members of these names (${why})`;
    ctx.addIssue({ code: 'custom', message });
    return z.NEVER;
  }
  const { path = null, engine = null, size = null, overcommit = 1 } = read.data;
  return { path, engine, sizeGB: size, overcommit };
});

/** Whatever the emulator's users ask for fits: nobody's test runs into a limit. */
const SIMULATED: PoolConfig = { path: null, engine: 'directory', sizeGB: MAX_GB, overcommit: 1 };

const UNCONFIGURED: PoolConfig = { path: null, engine: null, sizeGB: null, overcommit: 1 };

interface PoolDeps {
  config: Pick<Config, 'dataFolder' | 'pools' | 'engine'>;
  store: Store;
  installation: string;
  log: Logger;
}

/** Throws an Error that says what is wrong with the configured ones, and what would be right. */
export async function makePools(deps: PoolDeps): Promise<PoolDrivers[]> {
  const { config, store } = deps;
  const made: PoolDrivers[] = [];
  const unsized = new Map<number, PoolName>();
  for (const name of poolNames) {
    const configured = config.pools[name];
    if (configured === null && name !== 'default') {
      if (await hasDisks(store.read, name))
        throw new Error(
          `Disks lie in the pool ${name}, which is not configured any more: set ${variableOf(name)} as it was`,
        );
      continue;
    }
    const { path, engine, ...rules } = configured ?? (config.engine === 'simulated' ? SIMULATED : UNCONFIGURED);
    const root = path ?? join(config.dataFolder, name === 'default' ? 'disks' : `disks-${name}`);
    const storage = await storageOf(deps, name, root, engine);
    if (rules.sizeGB === null) await claim(unsized, name, root);
    made.push({ name, storage, ...rules, seen: null });
  }
  return made;
}

/** Two that each promise all the room of one place would promise it twice. */
async function claim(unsized: Map<number, PoolName>, name: PoolName, root: string): Promise<void> {
  const found = await stat(root).catch(() => null);
  if (!found) return;
  const other = unsized.get(found.dev);
  if (other !== undefined)
    throw new Error(
      `The pools ${other} and ${name} lie on one file system, and each would promise all of its room: give size=<GB> to ${variableOf(name)} or to ${variableOf(other)}`,
    );
  unsized.set(found.dev, name);
}

export const variableOf = (name: PoolName): string =>
  name === 'default' ? 'BERTH_POOL' : `BERTH_POOL_${name.toUpperCase()}`;

/** What was written down before there was a choice: the disks of an older installation are folders. */
const MADE_BEFORE = 'done.disks';

async function storageOf(
  { store, installation, log }: PoolDeps,
  name: PoolName,
  root: string,
  wanted: StorageEngine | null,
): Promise<Storage> {
  await mkdir(dirname(root), { recursive: true });
  // As the kernel names it: mounts are found by their paths.
  const at = { root: await realPathOf(root), installation };
  const before = name === 'default' && (await setting(store.read, MADE_BEFORE)) !== undefined;
  const known = before ? 'directory' : undefined;
  const engine = (await setting(store.read, `pool.${name}`)) ?? known ?? (await settle(at, name, wanted, log));
  if (wanted !== null && wanted !== engine) {
    const text = `the disks in ${root} are made by ${engine}, and those of ${wanted} would be nothing to it`;
    throw new Error(
      `${variableOf(name)} says engine=${wanted}, but ${text}: say engine=${engine}, or start anew with an empty pool`,
    );
  }
  // Written down once its place is made: from then on a place that is not there is never replaced by an empty one.
  await store.write((tx) => saveSetting(tx, `pool.${name}`, engine));
  if (engine === 'directory') return makeDirectoryStorage(at);
  await releaseWriters(at.root);
  return makeImageFileStorage({ ...at, copies: (await canReflink(root)) ? 'atomic' : 'live' });
}

/** Also of a place that is not there yet, or not now. */
const realPathOf = async (path: string): Promise<string> =>
  realpath(path).catch(async () => join(await realpath(dirname(path)), basename(path)));

/** Makes its place, and finds out by which engine its disks are to be made. */
async function settle(at: Root, name: PoolName, wanted: StorageEngine | null, log: Logger): Promise<StorageEngine> {
  await makeRoot(at);
  if (wanted === 'directory') return wanted;
  const whyNot = await whyNoImageFiles(at);
  if (whyNot === null) return 'image-file';
  if (wanted === 'image-file')
    throw new Error(`${variableOf(name)} says engine=image-file, which can not be had here: ${whyNot}`);
  log.warn(
    { pool: name, why: whyNot },
    'disks are plain folders here: their sizes are measured, and nothing stops a writer',
  );
  return 'directory';
}

/**
 * Removes one installation from the host: what bears its label on the engine, its rules in the
 * packet filter, and the folders with its marker. Repeatable: the data folder goes last.
 */
import { existsSync, readFileSync, realpathSync, rmdirSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import Docker from 'dockerode';
import { poolNames } from '../src/domain/disk.ts';
import { installationLabel } from '../src/engines/labels.ts';
import { readConfig } from '../src/main/config.ts';
import { lockFolder } from '../src/store/db/folder-lock.ts';
import { removeChains } from './lib/packet-filter.ts';
import { removeDataFolder } from './lib/remove-data-folder.mjs';
import { runCommand, say, Unready } from './lib/run.mjs';

const config = readConfig(process.env);

/** Folders of the pools that bear the marker of one installation, and that installation. */
function findPools(): { installation: string; roots: string[] } {
  const marked = poolNames.flatMap((name) => {
    const folder = name === 'default' ? 'disks' : `disks-${name}`;
    const root = config.pools[name]?.path ?? path.join(config.dataFolder, folder);
    const marker = path.join(root, '.berth-installation');
    return existsSync(marker) ? [{ root: realpathSync(root), installation: readFileSync(marker, 'utf8').trim() }] : [];
  });
  const [first] = marked;
  if (first === undefined)
    throw new Unready(
      `No disk pool of an installation was found for ${config.dataFolder}; set BERTH_DATA and BERTH_POOL… as for the server`,
    );
  const foreign = marked.find(({ installation }) => installation !== first.installation);
  if (foreign)
    throw new Unready(`The pool ${foreign.root} belongs to another installation; set BERTH_POOL… as for the server`);
  return { installation: first.installation, roots: marked.map(({ root }) => root) };
}

async function confirm(installation: string, roots: readonly string[]): Promise<void> {
  const what = `installation ${installation}: instances, volumes and all files in ${[...new Set([...roots, config.dataFolder])].join(', ')}`;
  if (process.argv.includes('--yes')) return say(`Removing ${what}`);
  if (!process.stdin.isTTY) throw new Unready(`This would remove ${what}. Add -- --yes to do so`);
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  const typed = await reader.question(`This removes ${what}.\nType the data folder to confirm: `);
  reader.close();
  if (typed.trim() !== config.dataFolder) throw new Unready('Nothing was removed');
}

async function removeEngineObjects(installation: string): Promise<void> {
  const docker = new Docker();
  const filters = { label: [installationLabel(installation)] };
  for (const { Id } of await docker.listContainers({ all: true, filters }))
    await docker.getContainer(Id).remove({ force: true, v: true });
  for (const { Id } of await docker.listNetworks({ filters })) await docker.getNetwork(Id).remove();
  for (const { Id } of await docker.listImages({ filters: JSON.stringify(filters) }))
    await docker.getImage(Id).remove({ force: true });
}

/** All installations of a host share the group: it stays while one has containers. */
function removeEmptyGroup(): void {
  for (const root of ['', 'cpu', 'memory', 'pids', 'blkio'])
    try {
      rmdirSync(path.join('/sys/fs/cgroup', root, 'berth'));
    } catch {
      // Absent, or in use.
    }
}

await runCommand(async () => {
  const { installation, roots } = findPools();
  await confirm(installation, roots);
  const lock = (() => {
    try {
      return lockFolder(config.dataFolder);
    } catch (error) {
      throw new Unready(error instanceof Error ? error.message : String(error));
    }
  })();
  if (config.engine === 'docker') await removeEngineObjects(installation);
  await removeChains(installation);
  removeEmptyGroup();
  for (const root of roots) removeDataFolder(root);
  lock.release();
  removeDataFolder(realpathSync(config.dataFolder));
  say('Removed. Raised limits of the kernel last until the host restarts.');
  if (config.databaseUrl !== null) say('The PostgreSQL database of BERTH_DATABASE_URL is still there: drop it.');
});

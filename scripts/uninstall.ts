/**
 * Removes one installation from the host: what bears its label on the engine, its rules in the
 * packet filter, and the folders with its marker. Repeatable: the data folder goes last.
 */
import { existsSync, readFileSync, realpathSync, rmdirSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { DatabaseSync } from 'node:sqlite';
import Docker from 'dockerode';
import { errorText } from '../src/domain/kernel/unknown-error.ts';
import { diskKinds, poolNames } from '../src/domain/storage/disk.ts';
import { installationLabel } from '../src/engines/labels.ts';
import { readConfig } from '../src/main/config.ts';
import { lockFolder } from '../src/store/db/folder-lock.ts';
import { removeChains } from './lib/packet-filter.ts';
import { removeDataFolder } from './lib/remove-data-folder.mjs';
import { runCommand, say, Unready } from './lib/run.mjs';

const config = (() => {
  try {
    return readConfig(process.env);
  } catch (error) {
    process.stderr.write(`${errorText(error)}\n`);
    return process.exit(1);
  }
})();

/** What Berth keeps in a pool, which may have files of others beside. */
const OF_POOLS = [...diskKinds, '.empty', '.reflink', '.berth-installation', '.berth-installation.new'];

/** Null if the folder is not, or no longer, the data folder of an installation. */
function installationOfData(): string | null {
  const file = path.join(config.dataFolder, 'berth.db');
  if (!existsSync(file)) return null;
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    const row = database.prepare(`select value from setting where name = 'installation'`).get();
    return typeof row?.['value'] === 'string' ? row['value'] : null;
  } finally {
    database.close();
  }
}

/**
 * The installation, and folders of its pools. A pool alone names none: its installation may have
 * another data folder, and a server that runs.
 */
function findPools(): { installation: string; roots: string[] } {
  const marked = poolNames.flatMap((name) => {
    const folder = name === 'default' ? 'disks' : `disks-${name}`;
    const root = config.pools[name]?.path ?? path.join(config.dataFolder, folder);
    const marker = path.join(root, '.berth-installation');
    return existsSync(marker) ? [{ root: realpathSync(root), installation: readFileSync(marker, 'utf8').trim() }] : [];
  });
  // With PostgreSQL, the markers name the installation, and the folder has its key.
  const hasKey = config.databaseUrl !== null && existsSync(path.join(config.dataFolder, 'secrets.key'));
  const installation = hasKey ? marked[0]?.installation : installationOfData();
  if (installation === undefined || installation === null)
    throw new Unready(
      `${config.dataFolder} is not the data folder of an installation; set BERTH_DATA, BERTH_DATABASE_URL and BERTH_POOL… as for the server`,
    );
  const foreign = marked.find((pool) => pool.installation !== installation);
  if (foreign)
    throw new Unready(`The pool ${foreign.root} belongs to another installation; set BERTH_POOL… as for the server`);
  return { installation, roots: [...new Set(marked.map(({ root }) => root))] };
}

async function confirm(installation: string, roots: readonly string[]): Promise<void> {
  const what = `installation ${installation}: instances, volumes, ${roots.map((root) => `the disks in ${root}, `).join('')}all files in ${config.dataFolder}`;
  if (process.argv.includes('--yes')) return say(`Removing ${what}`);
  if (!process.stdin.isTTY) throw new Unready(`This would remove ${what}. Add -- --yes to do so`);
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  const typed = await reader.question(`This removes ${what}.\nType the data folder to confirm: `);
  reader.close();
  if (typed.trim() !== config.dataFolder) throw new Unready('Nothing was removed');
}

async function removeEngineObjects(installation: string): Promise<void> {
  const docker = new Docker();
  await docker.ping().catch((error: unknown) => {
    throw new Unready(
      `The container engine does not answer (${errorText(error)}): start it, so that its parts are removed`,
    );
  });
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
      throw new Unready(errorText(error));
    }
  })();
  if (config.engine === 'docker') await removeEngineObjects(installation);
  await removeChains(installation);
  removeEmptyGroup();
  for (const root of roots) removeDataFolder(root, OF_POOLS);
  lock.release();
  removeDataFolder(realpathSync(config.dataFolder));
  say('Removed. Raised limits of the kernel last until the host restarts.');
  if (config.databaseUrl !== null) say('The PostgreSQL database of BERTH_DATABASE_URL is still there: drop it.');
});

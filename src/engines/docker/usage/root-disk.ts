/**
 * Counts root disks on this machine, and the space of their file system.
 *
 * A root disk is the writable layer, the anonymous volumes of the image, and the three files that
 * the engine mounts from its own folder. Blocks count, not lengths: `fallocate --keep-size` adds
 * blocks to an empty file. A deleted file counts while a process has it open; one that only a
 * memory mapping or a descriptor under way in a socket keeps is not found.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile, readlink, stat, statfs } from 'node:fs/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import type { Space } from '../../../domain/storage/pool.ts';
import type { Host } from '../client/host-facts.ts';
import { processesOf } from './block-io.ts';

const COUNT_DEADLINE_MS = 10_000;
const BLOCK_BYTES = 512;
/** Bounds the search for deleted files. */
const MAX_DESCRIPTORS = 20_000;

const overlay = z.object({ UpperDir: z.string() });

type Inspected = Pick<
  ContainerInspectInfo,
  'GraphDriver' | 'HostnamePath' | 'HostsPath' | 'ResolvConfPath' | 'Mounts'
> & {
  State: Pick<ContainerInspectInfo['State'], 'Pid'>;
};

/** Null if the files could not be counted in time. */
export async function countRootDisk(info: Inspected, signal: AbortSignal): Promise<number | null> {
  const volumes = info.Mounts.filter(({ Type }) => Type === 'volume').map(({ Source }) => Source);
  const layer = overlay.safeParse(info.GraphDriver.Data).data?.UpperDir ?? '';
  const files = [info.HostnamePath, info.HostsPath, info.ResolvConfPath, layer, ...volumes];
  const [written, deleted] = await Promise.all([
    diskUsage(
      files.filter((path) => path !== ''),
      signal,
    ),
    deletedBytes(info.State.Pid),
  ]);
  return written === null ? null : written + deleted;
}

/** Null after the deadline. Paths that vanish meanwhile count as far as they were read. */
function diskUsage(paths: readonly string[], signal: AbortSignal): Promise<number | null> {
  const options = { signal, timeout: COUNT_DEADLINE_MS, maxBuffer: 1024 ** 2 };
  return new Promise((resolve) => {
    execFile('du', ['-s', '-x', '--block-size=1', '--', ...paths], options, (error, stdout) => {
      if (error !== null && (error.killed === true || error.name === 'AbortError')) return resolve(null);
      const sizes = [...stdout.matchAll(/^(\d+)\t/gm)].map(([, bytes]) => Number(bytes));
      resolve(sizes.length === 0 ? null : sizes.reduce((sum, bytes) => sum + bytes, 0));
    });
  });
}

/** Files of the root file system of `pid` that are deleted and still open in its container. */
async function deletedBytes(pid: number): Promise<number> {
  if (pid === 0) return 0;
  const mounts = await readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => '');
  const rootMount = mounts
    .split('\n')
    .find((line) => line.split(' ')[4] === '/')
    ?.split(' ')[0];
  const sizes = new Map<number, number>();
  let left = MAX_DESCRIPTORS;
  for (const process of await processesOf(pid)) {
    const folder = `/proc/${process}`;
    const descriptors = (await readdir(`${folder}/fd`).catch(() => [])).slice(0, left);
    left -= descriptors.length;
    await Promise.all(
      descriptors.map(async (descriptor) => {
        const target = await readlink(`${folder}/fd/${descriptor}`).catch(() => '');
        if (!target.endsWith(' (deleted)')) return;
        const facts = await readFile(`${folder}/fdinfo/${descriptor}`, 'utf8').catch(() => '');
        if (/^mnt_id:\s*(\d+)$/m.exec(facts)?.[1] !== rootMount) return;
        const file = await stat(`${folder}/fd/${descriptor}`).catch(() => null);
        if (file?.isFile() === true && file.nlink === 0) sizes.set(file.ino, file.blocks * BLOCK_BYTES);
      }),
    );
    if (left <= 0) break;
  }
  return [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
}

export async function rootDiskSpace(host: Host, signal: AbortSignal): Promise<Space | null> {
  const { dataRoot } = await host.facts(signal);
  if (dataRoot === null) return null;
  const [{ bsize, blocks, bavail }, { dev }] = await Promise.all([statfs(dataRoot), stat(dataRoot)]);
  return { totalBytes: bsize * blocks, freeBytes: bsize * bavail, device: dev };
}

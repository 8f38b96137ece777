/** Disks as plain folders: any file system, no privileges. Only `files` is visible to instances. */
import { execFile } from 'node:child_process';
import { lstat, mkdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DiskId } from '../../domain/disk.ts';
import { findLargestEntries } from '../largest-entries.ts';
import { StorageFault, type Storage } from '../contract.ts';
import {
  listDisks,
  isFolder,
  moveDurably,
  observeDisk,
  diskPaths,
  requireFreeSpace,
  removeTree,
  readSpace,
  checkRoot,
  type DiskRoot,
} from '../layout.ts';
import { copyFiles } from '../copy-files.ts';

/** Block sizes in bytes: of `du -k`, and of stat. */
const DU_BLOCK = 1024;
const STAT_BLOCK = 512;

const filesIn = (folder: string): string => join(folder, 'files');

export function makeDirectoryStorage(at: DiskRoot): Storage {
  async function filesOf(disk: DiskId): Promise<string> {
    const files = filesIn(diskPaths(at.root, disk).folder);
    if (!(await isFolder(files))) throw new StorageFault('notFound', `the ${disk.kind} disk ${disk.id} does not exist`);
    return files;
  }

  return {
    capabilities: () => ({ sizeLimit: 'soft', usage: 'walk', copies: 'live', dockerInside: false }),

    async create(disk, _sizeGB, signal, from) {
      const { folder, staging } = diskPaths(at.root, disk);
      const reason = await checkRoot(at);
      if (reason !== null) throw new Error(reason);
      if (await isFolder(folder)) return;
      await removeTree(staging);
      await mkdir(dirname(folder), { recursive: true, mode: 0o711 });
      await mkdir(staging, { mode: 0o700 });
      await mkdir(filesIn(staging), { mode: 0o700 });
      try {
        if (from !== undefined) {
          const files = await filesOf(from);
          await requireFreeSpace(at.root, (await usedBytes(files, signal)) ?? 0);
          await copyFiles(files, filesIn(staging), signal);
        }
        await moveDurably(staging, folder);
      } catch (error) {
        await removeTree(staging);
        throw error;
      }
    },

    async grow(disk) {
      await filesOf(disk);
    },

    mount: filesOf,
    async unmount(disk) {
      diskPaths(at.root, disk);
    },
    observe: (disk) => observeDisk(at, disk, async () => null),
    usage: async (disk, signal) => usedBytes(filesIn(diskPaths(at.root, disk).folder), signal),
    async largestEntries(disk, signal) {
      const files = filesIn(diskPaths(at.root, disk).folder);
      return (await isFolder(files)) ? findLargestEntries(files, signal) : null;
    },

    async destroy(disk) {
      const { folder, staging, trash } = diskPaths(at.root, disk);
      await removeTree(staging);
      await removeTree(trash);
      if (!(await isFolder(folder))) return;
      // Renamed first: a half-deleted disk can't be mounted, and a new disk starts empty.
      await rename(folder, trash);
      await removeTree(trash);
    },

    listOwned: () => listDisks(at.root),
    listMounted: async () => [],
    space: () => readSpace(at.root),
  };
}

/** Allocated bytes, hard links counted once. `du` prints a sum even if files vanish meanwhile. */
async function usedBytes(folder: string, signal: AbortSignal): Promise<number | null> {
  const stat = await lstat(folder).catch(() => null);
  if (stat === null) return null;
  return new Promise((resolve, reject) => {
    execFile('du', ['-skx', '--', folder], { signal }, (error, stdout) => {
      if (signal.aborted) return reject(error ?? new Error('aborted'));
      const blocks = /^(\d+)\s/.exec(stdout)?.[1];
      resolve(blocks === undefined ? null : Math.max(0, Number(blocks) * DU_BLOCK - stat.blocks * STAT_BLOCK));
    });
  });
}

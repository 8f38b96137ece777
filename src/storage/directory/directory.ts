/** Disks as plain folders: any file system, no privileges. Only `files` is visible to instances. */
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DiskId } from '../../domain/storage/disk.ts';
import { diskNotFound, type Storage } from '../contract.ts';
import { folderFiles } from '../files.ts';
import {
  destroyFolder,
  diskPaths,
  isFolder,
  listDisks,
  moveDurably,
  observeDisk,
  readSpace,
  removeTree,
  requireFreeSpace,
  requireRoot,
  type DiskRoot,
} from '../layout.ts';
import { copyFiles, findLargestEntries, usedBytes } from '../trees.ts';

export function makeDirectoryStorage(options: DiskRoot): Storage {
  const filesPath = (disk: DiskId): string => join(diskPaths(options.root, disk).folder, 'files');

  async function filesOf(disk: DiskId): Promise<string> {
    const files = filesPath(disk);
    if (!(await isFolder(files))) throw diskNotFound(disk);
    return files;
  }

  return {
    capabilities: () => ({ sizeLimit: 'soft', usage: 'walk', copies: 'live', dockerInside: false }),

    async create(disk, _sizeGB, signal, from) {
      const { folder, staging } = diskPaths(options.root, disk);
      await requireRoot(options);
      if (await isFolder(folder)) return;
      await removeTree(staging);
      await mkdir(dirname(folder), { recursive: true, mode: 0o711 });
      await mkdir(staging, { mode: 0o700 });
      const stagedFiles = join(staging, 'files');
      await mkdir(stagedFiles, { mode: 0o700 });
      try {
        if (from !== undefined) {
          const files = await filesOf(from);
          await requireFreeSpace(options, (await usedBytes(files, signal)) ?? 0);
          await copyFiles(files, stagedFiles, signal);
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
    files: async (disk) => folderFiles(await filesOf(disk)),
    async unmount(disk) {
      diskPaths(options.root, disk);
    },
    observe: (disk) => observeDisk(options, disk, async () => null),
    usage: async (disk, signal) => usedBytes(filesPath(disk), signal),
    allocation: async () => null,
    async largestEntries(disk, signal) {
      const files = filesPath(disk);
      return (await isFolder(files)) ? findLargestEntries(files, signal) : null;
    },

    async destroy(disk) {
      const paths = diskPaths(options.root, disk);
      await removeTree(paths.staging);
      await destroyFolder(paths);
    },

    listOwned: () => listDisks(options.root),
    listMounted: async () => [],
    space: () => readSpace(options.root),
  };
}

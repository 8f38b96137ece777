/**
 * Disks as XFS in image files on loop devices: hard limits on any Linux host, as root. Images are
 * sparse. In a thick pool the images of promised disks have all their blocks from the start, and
 * are mounted without `discard`, which would return blocks to the host.
 */
import { stat } from 'node:fs/promises';
import type { Consistency } from '../../domain/storage/snapshot.ts';
import type { DiskId } from '../../domain/storage/disk.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import { StorageFault, type DiskToMake, type Storage } from '../contract.ts';
import { folderFiles, uploadFolder } from '../files.ts';
import {
  destroyFolder,
  diskPaths,
  ifMissing,
  isFolder,
  isMissing,
  listDisks,
  observeDisk,
  readSpace,
  removeTree,
  requireRoot,
  type DiskRoot,
} from '../layout.ts';
import { findLargestEntries } from '../trees.ts';
import { makeDiskCreator, withFullFault } from './create.ts';
import {
  detachFolder,
  discardStaging,
  filesIn,
  hasImage,
  imageIn,
  isMounted,
  mountIn,
  mountOptions,
  readFilesBytes,
  readMetadata,
  unmountFolder,
  withMounted,
  writeMetadata,
} from './image-folder.ts';
import { listMountPoints, mountImage } from './image-mounts.ts';
import { allocateImage } from './sparse.ts';
import { growFileSystem } from './xfs.ts';

const PROBE_DEADLINE_MS = 60_000;

/** Creates a trial disk; returns the host's error, or null where image files work. */
export async function probeImageFiles(at: DiskRoot): Promise<string | null> {
  const storage = makeImageFileStorage({ ...at, copies: 'live' });
  const trial: DiskId = { kind: 'volume', id: 'trial' };
  try {
    await storage.create(trial, 1, AbortSignal.timeout(PROBE_DEADLINE_MS));
    await storage.mount(trial);
    return null;
  } catch (error) {
    return errorText(error);
  } finally {
    await storage.destroy(trial);
  }
}

export interface ImageFileOptions extends DiskRoot {
  copies: Consistency;
  /** Whether promised disks get all blocks at once; default no. */
  thick?: boolean;
}

const BLOCK_BYTES = 512;

export function makeImageFileStorage(options: ImageFileOptions): Storage {
  const createDisk = makeDiskCreator(options);
  const folderOf = (disk: DiskId): string => diskPaths(options.root, disk).folder;
  // A snapshot is never written again.
  const isThick = ({ kind, promisedGB = 0 }: DiskToMake): boolean =>
    options.thick === true && promisedGB > 0 && kind !== 'snapshot';

  async function mount(disk: DiskId): Promise<string> {
    const folder = folderOf(disk);
    const before = await readMetadata(folder, disk);
    if (await isMounted(folder)) return filesIn(folder);
    await writeMetadata(folder, { ...before, usedBytes: null });
    await mountImage(imageIn(folder), mountIn(folder), mountOptions({ ...disk, thick: before.thick }));
    // Uploads of a crashed server.
    await removeTree(uploadFolder(filesIn(folder)));
    return filesIn(folder);
  }

  return {
    capabilities: () => ({ sizeLimit: 'hard', usage: 'instant', copies: options.copies, dockerInside: true }),

    async create(disk, sizeGB, signal, from) {
      const folder = folderOf(disk);
      await requireRoot(options);
      if (!(await isFolder(folder))) await createDisk({ disk, sizeGB, from, signal, thick: isThick(disk) });
    },

    async grow(disk, sizeGB) {
      const folder = folderOf(disk);
      const before = await readMetadata(folder, disk);
      const thick = before.thick || isThick(disk);
      const image = imageIn(folder);
      if (sizeGB > before.sizeGB) {
        const size = { sizeGB, ownBytes: before.ownBytes, thick };
        await withFullFault(() =>
          withMounted({ ...disk, thick }, folder, () => growFileSystem(image, mountIn(folder), size)),
        );
      }
      if (isThick(disk)) await withFullFault(() => allocateImage(image));
      if (sizeGB > before.sizeGB || thick !== before.thick)
        await writeMetadata(folder, { ...before, sizeGB: Math.max(sizeGB, before.sizeGB), thick });
    },

    mount,
    files: async (disk) => folderFiles(await mount(disk)),

    async unmount(disk) {
      const folder = folderOf(disk);
      if (!(await isMounted(folder))) return;
      const before = await readMetadata(folder, disk);
      await writeMetadata(folder, { ...before, usedBytes: await readFilesBytes(folder, before.ownBytes) });
      await unmountFolder(folder);
    },

    async observe(disk) {
      const folder = folderOf(disk);
      if ((await isFolder(folder)) && !(await hasImage(folder))) return { kind: 'absent' };
      return observeDisk(options, disk, async () => (await readMetadata(folder, disk)).sizeGB);
    },

    async usage(disk) {
      const folder = folderOf(disk);
      try {
        const { ownBytes, usedBytes } = await readMetadata(folder, disk);
        if (await isMounted(folder)) return await readFilesBytes(folder, ownBytes);
        return (await hasImage(folder)) ? usedBytes : null;
      } catch (error) {
        // Unmounted meanwhile.
        if (isMissing(error) || (error instanceof StorageFault && error.kind === 'notFound')) return null;
        throw error;
      }
    },

    async allocation(disk) {
      const image = await stat(imageIn(folderOf(disk))).catch(ifMissing(null));
      return image && { heldBytes: image.blocks * BLOCK_BYTES, maxBytes: image.size };
    },

    async largestEntries(disk, signal) {
      const folder = folderOf(disk);
      return (await isMounted(folder)) ? findLargestEntries(filesIn(folder), signal) : null;
    },

    async destroy(disk) {
      const paths = diskPaths(options.root, disk);
      await discardStaging(paths.staging);
      await destroyFolder(paths, detachFolder);
    },

    listOwned: () => listDisks(options.root),

    async listMounted() {
      const points = await listMountPoints();
      return (await listDisks(options.root)).filter((disk) => points.has(mountIn(folderOf(disk))));
    },

    space: () => readSpace(options.root),
  };
}

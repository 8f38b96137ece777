/**
 * Disks as file systems in sparse image files, mounted over loop devices: a hard limit on any Linux host, as root. A disk is
 * `<root>/<kind>/<id>/` with `image`, what is written down of it in `disk.json`, and `mount/`, on which the image is mounted while an
 * instance may want it. Instances get the folder `files` inside the image: where it is not mounted there is no such folder, so that
 * nothing is ever written beside it. The host's own free room is what the images have not taken yet.
 */
import { makeSemaphore } from '../../async/semaphore.ts';
import { lstat, mkdir, readFile, rename, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { DiskId } from '../../domain/disk.ts';
import { findLargestEntries } from '../largest-entries.ts';
import { StorageFault, type Storage } from '../contract.ts';
import { uploadFolder } from '../files.ts';
import {
  listDisks,
  isFolder,
  isMissing,
  moveDurably,
  observeDisk,
  diskPaths,
  requireFreeSpace,
  removeTree,
  run,
  readSpace,
  checkRoot,
  type DiskRoot,
} from '../layout.ts';
import { copyFiles } from '../copy-files.ts';
import {
  DEVICE_PAUSE_MS,
  DEVICE_TRIES,
  detachDevice,
  findLoopDevice,
  mountImage,
  mountNewImage,
  listMountPoints,
} from './mounts.ts';
import { reflink } from './reflink.ts';
import { makeTemplates } from './templates.ts';
import { makeFileSystem, readUsage, growFileSystem } from './xfs.ts';

/** Written down when it is made, grown and unmounted. */
const facts = z.object({
  sizeGB: z.number(),
  /** What the file system uses when it is empty. */
  ownBytes: z.number(),
  /** Of files, when it was last unmounted; null since it was mounted again, and not known after a crash. */
  usedBytes: z.number().nullable(),
});
type Facts = z.infer<typeof facts>;

/** Of a Docker inside: its images have device nodes and setuid programs of their own, for its own containers. */
const optionsOf = ({ kind }: Pick<DiskId, 'kind'>): string[] => [
  'nouuid',
  'discard',
  // What is set aside for a file that grows counts as used: not more of it than this.
  'allocsize=1m',
  ...(kind === 'docker' ? [] : ['nosuid', 'nodev']),
];

/** An instance that starts waits for it: it is not unmounted only to be mounted again. */
const isWantedAtOnce = ({ kind }: DiskId): boolean => kind !== 'volume' && kind !== 'snapshot';

const imageIn = (folder: string): string => join(folder, 'image');
const mountIn = (folder: string): string => join(folder, 'mount');
/** On which what is copied is mounted meanwhile. */
const sourceIn = (fresh: string): string => join(fresh, 'source');
const filesIn = (folder: string): string => join(mountIn(folder), 'files');
const factsIn = (folder: string): string => join(folder, 'disk.json');

/** Each keeps processors and disks of the host busy; a copy for long, so that it is not what an instance waits for. */
const MADE_AT_ONCE = 8;
const COPIED_AT_ONCE = 2;
const TRIAL_DEADLINE_MS = 60_000;

/** Asked of the folder alone: the table of all mounts grows with the disks that there are. */
async function isMounted(folder: string): Promise<boolean> {
  try {
    const [own, inside] = await Promise.all([lstat(folder), lstat(mountIn(folder))]);
    return own.dev !== inside.dev;
  } catch (error) {
    // A file system that has given up is mounted, and says nothing else of itself.
    return !isMissing(error);
  }
}

async function unmountAt(folder: string): Promise<void> {
  try {
    await run('umount', [mountIn(folder)]);
  } catch (error) {
    throw new StorageFault('busy', 'somebody on the host works in the disk', error);
  }
}

/** One without is as good as none. */
async function hasImage(folder: string): Promise<boolean> {
  try {
    return (await stat(imageIn(folder))).size > 0;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** What the host's file system has no room for, or can't hold in one file. */
async function asFull<T>(deed: () => Promise<T>): Promise<T> {
  try {
    return await deed();
  } catch (error) {
    const text = error instanceof Error ? error.message : '';
    if (/ENOSPC|EFBIG|EDQUOT|No space left on device|File too large/.test(text))
      throw new StorageFault('full', 'the storage of the region has not enough room for a disk of this size', error);
    throw error;
  }
}

/** Why disks can't be made like this there, in the host's words: found out by making one. Null when they can. */
export async function probeImageFiles(at: DiskRoot): Promise<string | null> {
  const storage = makeImageFileStorage({ ...at, copies: 'live' });
  const trial: DiskId = { kind: 'volume', id: 'trial' };
  try {
    await storage.create(trial, 1, AbortSignal.timeout(TRIAL_DEADLINE_MS));
    await storage.mount(trial);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    await storage.destroy(trial);
  }
}

export function makeImageFileStorage(at: DiskRoot & { copies: 'atomic' | 'live' }): Storage {
  const making = makeSemaphore(MADE_AT_ONCE);
  const copying = makeSemaphore(COPIED_AT_ONCE);
  const templates = makeTemplates({ root: at.root, build, discard });

  async function read(folder: string, disk: DiskId): Promise<Facts> {
    try {
      return facts.parse(JSON.parse(await readFile(factsIn(folder), 'utf8')));
    } catch (error) {
      if (isMissing(error))
        throw new StorageFault('notFound', `the ${disk.kind} disk ${disk.id} does not exist`, error);
      throw error;
    }
  }

  async function write(folder: string, now: Facts): Promise<void> {
    await writeFile(`${factsIn(folder)}.new`, JSON.stringify(now), { flush: true });
    await rename(`${factsIn(folder)}.new`, factsIn(folder));
  }

  /** While `work` goes on it is mounted, whether it was before or not. */
  async function mounted<T>(disk: DiskId, folder: string, work: () => Promise<T>): Promise<T> {
    if (await isMounted(folder)) return work();
    await mountImage(imageIn(folder), mountIn(folder), optionsOf(disk));
    try {
      return await work();
    } finally {
      await unmountAt(folder);
    }
  }

  /** Made where nobody looks, and moved to its place when it is whole. */
  async function make(disk: DiskId, sizeGB: number, signal: AbortSignal, from?: DiskId): Promise<void> {
    const { folder, staging } = diskPaths(at.root, disk);
    await mkdir(dirname(folder), { recursive: true, mode: 0o711 });
    await discard(staging);
    await mkdir(mountIn(staging), { recursive: true, mode: 0o700 });
    try {
      const now =
        from === undefined ? await makeEmpty(disk, sizeGB, staging) : await copy(disk, sizeGB, staging, from, signal);
      signal.throwIfAborted();
      await write(staging, now);
      await moveDurably(staging, folder);
    } catch (error) {
      await discard(staging);
      throw error;
    }
  }

  async function makeEmpty(disk: DiskId, sizeGB: number, fresh: string): Promise<Facts> {
    const { ownBytes, usedBytes } = await templates.writeEmpty(imageIn(fresh), sizeGB);
    const stays = isWantedAtOnce(disk);
    if (stays) await mountNewImage(imageIn(fresh), mountIn(fresh), optionsOf(disk));
    return { sizeGB, ownBytes, usedBytes: stays ? null : usedBytes };
  }

  /** Without a template. */
  async function build(
    folder: string,
    sizeGB: number,
  ): Promise<{ image: string; ownBytes: number; usedBytes: number }> {
    const [image, mountPoint] = [imageIn(folder), mountIn(folder)];
    await mkdir(mountPoint, { recursive: true, mode: 0o700 });
    await makeFileSystem(image, sizeGB);
    await mountNewImage(image, mountPoint, optionsOf({ kind: 'volume' }));
    await mkdir(filesIn(folder), { mode: 0o755 });
    const { usedBytes: ownBytes } = await readUsage(mountPoint);
    await growFileSystem(image, mountPoint, sizeGB, ownBytes);
    const usedBytes = await filesBytes(folder, ownBytes);
    await unmountAt(folder);
    return { image, ownBytes, usedBytes };
  }

  /** The source has a mount of its own for the copy: it may be mounted and unmounted at its place meanwhile. */
  async function copy(disk: DiskId, sizeGB: number, fresh: string, from: DiskId, signal: AbortSignal): Promise<Facts> {
    const source = diskPaths(at.root, from).folder;
    const known = await read(source, from);
    await mkdir(sourceIn(fresh), { mode: 0o700 });
    await mountImage(imageIn(source), sourceIn(fresh), optionsOf(from));
    try {
      if (at.copies === 'live') {
        await requireFreeSpace(at.root, (await readUsage(sourceIn(fresh))).usedBytes - known.ownBytes);
        const empty = await makeEmpty(disk, sizeGB, fresh);
        const files = join(sourceIn(fresh), 'files');
        const usedBytes = await mounted(disk, fresh, async () => {
          await copyFiles(files, filesIn(fresh), signal);
          return filesBytes(fresh, empty.ownBytes);
        });
        return { ...empty, usedBytes };
      }
      await reflink(imageIn(source), imageIn(fresh), sourceIn(fresh));
    } finally {
      await run('umount', [sourceIn(fresh)]);
      await rmdir(sourceIn(fresh));
    }
    const { ownBytes } = known;
    return mounted(disk, fresh, async () => {
      await growFileSystem(imageIn(fresh), mountIn(fresh), sizeGB, ownBytes);
      return { sizeGB, ownBytes, usedBytes: await filesBytes(fresh, ownBytes) };
    });
  }

  const filesBytes = async (folder: string, ownBytes: number): Promise<number> =>
    Math.max(0, (await readUsage(filesIn(folder))).usedBytes - ownBytes);

  /** What was begun and is not whole, and the mounts of a server that died over it. */
  async function discard(fresh: string): Promise<void> {
    if (!(await isFolder(fresh))) return;
    if ((await listMountPoints()).has(sourceIn(fresh))) await run('umount', [sourceIn(fresh)]);
    await letGo(fresh);
    await removeTree(fresh);
  }

  /** No mount of ours, and no device: a container that has it mounted keeps that. */
  async function letGo(folder: string): Promise<void> {
    if (await isMounted(folder)) await unmountAt(folder);
    const device = await findLoopDevice(imageIn(folder));
    if (device === null) return;
    // It may go just now; or stay without end, when a server died between attaching it and mounting it.
    await detachDevice(device).catch(() => {});
    for (let tries = DEVICE_TRIES; (await findLoopDevice(imageIn(folder))) !== null; tries--) {
      if (tries === 0) throw new StorageFault('busy', 'an instance still uses the disk');
      await delay(DEVICE_PAUSE_MS);
    }
  }

  return {
    capabilities: () => ({ sizeLimit: 'hard', usage: 'instant', copies: at.copies, dockerInside: true }),

    async create(disk, sizeGB, signal, from) {
      const { folder } = diskPaths(at.root, disk);
      const reason = await checkRoot(at);
      if (reason !== null) throw new Error(reason);
      if (!(await isFolder(folder)))
        await (from === undefined ? making : copying).run(() => asFull(() => make(disk, sizeGB, signal, from)));
    },

    async grow(disk, sizeGB) {
      const { folder } = diskPaths(at.root, disk);
      const before = await read(folder, disk);
      if (sizeGB <= before.sizeGB) return;
      await asFull(() =>
        mounted(disk, folder, () => growFileSystem(imageIn(folder), mountIn(folder), sizeGB, before.ownBytes)),
      );
      await write(folder, { ...before, sizeGB });
    },

    async mount(disk) {
      const { folder } = diskPaths(at.root, disk);
      const known = await read(folder, disk);
      if (await isMounted(folder)) return filesIn(folder);
      await write(folder, { ...known, usedBytes: null });
      await mountImage(imageIn(folder), mountIn(folder), optionsOf(disk));
      // Nobody uploads into what is not mounted: these are of a server that died.
      await removeTree(uploadFolder(filesIn(folder)));
      return filesIn(folder);
    },

    async unmount(disk) {
      const { folder } = diskPaths(at.root, disk);
      if (!(await isMounted(folder))) return;
      const before = await read(folder, disk);
      await write(folder, { ...before, usedBytes: await filesBytes(folder, before.ownBytes) });
      await unmountAt(folder);
    },

    async observe(disk) {
      const { folder } = diskPaths(at.root, disk);
      if ((await isFolder(folder)) && !(await hasImage(folder))) return { kind: 'absent' };
      return observeDisk(at, disk, async () => (await read(folder, disk)).sizeGB);
    },

    async usage(disk) {
      const { folder } = diskPaths(at.root, disk);
      try {
        const known = await read(folder, disk);
        if (await isMounted(folder)) return await filesBytes(folder, known.ownBytes);
        return (await hasImage(folder)) ? known.usedBytes : null;
      } catch (error) {
        // Unmounted just now: its file system is asked by what is in it alone, or the host's would answer.
        if (isMissing(error) || (error instanceof StorageFault && error.kind === 'notFound')) return null;
        throw error;
      }
    },

    async largestEntries(disk, signal) {
      const { folder } = diskPaths(at.root, disk);
      return (await isMounted(folder)) ? findLargestEntries(filesIn(folder), signal) : null;
    },

    async destroy(disk) {
      const { folder, staging, trash } = diskPaths(at.root, disk);
      await discard(staging);
      await removeTree(trash);
      if (!(await isFolder(folder))) return;
      await letGo(folder);
      // Renamed first: what is half deleted can't be mounted any more, and a new one of the name starts empty.
      await rename(folder, trash);
      await removeTree(trash);
    },

    listOwned: () => listDisks(at.root),

    async listMounted() {
      const points = await listMountPoints();
      return (await listDisks(at.root)).filter((disk) => points.has(mountIn(diskPaths(at.root, disk).folder)));
    },

    space: () => readSpace(at.root),
  };
}

/** Instances get `mount/files`, inside the image: while unmounted no write can miss the image. */
import { lstat, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { DiskId } from '../../domain/storage/disk.ts';
import { diskNotFound, StorageFault } from '../contract.ts';
import { ifMissing, isFolder, isMissing, removeTree, run } from '../layout.ts';
import { findDiskUsers } from './host-processes.ts';
import {
  DEVICE_PAUSE_MS,
  DEVICE_TRIES,
  detachDevice,
  findLoopDevice,
  listMountPoints,
  mountImage,
} from './image-mounts.ts';
import { readUsage } from './xfs.ts';

export const imageIn = (folder: string): string => join(folder, 'image');
export const mountIn = (folder: string): string => join(folder, 'mount');
export const filesIn = (folder: string): string => join(mountIn(folder), 'files');
/** Mount point for the source of a copy. */
export const sourceIn = (staging: string): string => join(staging, 'source');
const metadataIn = (folder: string): string => join(folder, 'disk.json');

const metadata = z.object({
  sizeGB: z.number(),
  ownBytes: z.number(),
  /** Usage by files at the last unmount; null while mounted or after a crash. */
  usedBytes: z.number().nullable(),
  /** Whether all blocks of the image are allocated. */
  thick: z.boolean().default(false),
});
export type DiskMetadata = z.infer<typeof metadata>;

export async function readMetadata(folder: string, disk: DiskId): Promise<DiskMetadata> {
  try {
    return metadata.parse(JSON.parse(await readFile(metadataIn(folder), 'utf8')));
  } catch (error) {
    if (isMissing(error)) throw diskNotFound(disk, error);
    throw error;
  }
}

export async function writeMetadata(folder: string, content: DiskMetadata): Promise<void> {
  await writeFile(`${metadataIn(folder)}.new`, JSON.stringify(content), { flush: true });
  await rename(`${metadataIn(folder)}.new`, metadataIn(folder));
}

export type MountableDisk = DiskId & Pick<DiskMetadata, 'thick'>;

/** Images of a Docker inside contain device nodes and setuid programs. */
export const mountOptions = ({ kind, thick }: Pick<MountableDisk, 'kind' | 'thick'>): string[] => [
  'nouuid',
  thick ? 'nodiscard' : 'discard',
  // Bounds preallocation, which counts as used.
  'allocsize=1m',
  ...(kind === 'docker' ? [] : ['nosuid', 'nodev']),
];

/** Compares devices: the table of mounts grows with the number of disks. */
export async function isMounted(folder: string): Promise<boolean> {
  try {
    const [outer, inner] = await Promise.all([lstat(folder), lstat(mountIn(folder))]);
    return outer.dev !== inner.dev;
  } catch (error) {
    // After a shutdown on errors a mounted file system fails every call.
    return !isMissing(error);
  }
}

export async function unmountFolder(folder: string): Promise<void> {
  try {
    await run('umount', [mountIn(folder)]);
  } catch (error) {
    throw await busyFault(folder, error);
  }
}

async function busyFault(folder: string, cause?: unknown): Promise<StorageFault> {
  const users = await findDiskUsers(await findLoopDevice(imageIn(folder)), mountIn(folder)).catch(() => []);
  return new StorageFault('busy', 'a process of the host still uses the disk', cause, users);
}

/** Runs `fn` with the disk mounted; restores the earlier state. */
export async function withMounted<T>(disk: MountableDisk, folder: string, fn: () => Promise<T>): Promise<T> {
  if (await isMounted(folder)) return fn();
  await mountImage(imageIn(folder), mountIn(folder), mountOptions(disk));
  try {
    return await fn();
  } finally {
    await unmountFolder(folder);
  }
}

export const hasImage = (folder: string): Promise<boolean> =>
  stat(imageIn(folder)).then(({ size }) => size > 0, ifMissing(false));

export async function readFilesBytes(folder: string, ownBytes: number): Promise<number> {
  const { usedBytes } = await readUsage(filesIn(folder));
  return Math.max(0, usedBytes - ownBytes);
}

/** Unmounts, and waits for the loop device. Throws `busy` while a container has a mount. */
export async function detachFolder(folder: string): Promise<void> {
  if (await isMounted(folder)) await unmountFolder(folder);
  await releaseDevice(folder);
}

async function releaseDevice(folder: string): Promise<void> {
  const device = await findLoopDevice(imageIn(folder));
  if (device === null) return;
  // Either detached already, or left by a crash between attach and mount.
  await detachDevice(device).catch(() => {});
  for (let tries = DEVICE_TRIES; (await findLoopDevice(imageIn(folder))) !== null; tries--) {
    if (tries === 0) throw await busyFault(folder);
    await delay(DEVICE_PAUSE_MS);
  }
}

/**
 * Removes an incomplete disk, with the mounts of a crashed server. A loop device that another mount
 * namespace holds keeps the removed image.
 */
export async function discardStaging(staging: string): Promise<void> {
  if (!(await isFolder(staging))) return;
  if ((await listMountPoints()).has(sourceIn(staging))) await run('umount', [sourceIn(staging)]);
  if (await isMounted(staging)) await unmountFolder(staging);
  await releaseDevice(staging).catch(() => {});
  await removeTree(staging);
}

/**
 * File systems inside image files. XFS: it grows while it is mounted with no more than the right to mount, and makes inodes as files come, so
 * that a disk of small files is full when its bytes are and not before. (`docs/decisions/0022-disks-are-xfs-in-image-files.md`)
 */
import { statfs, truncate, writeFile } from 'node:fs/promises';
import { BYTES_PER_GB } from '../../domain/disk.ts';
import { run } from '../layout.ts';
import { findLoopDevice, refreshSize } from './mounts.ts';

const MIB = 1024 ** 2;
/** Its log, which holds no files. */
const LOG_BYTES = 64 * MIB;
/** Beyond the promised size: by what large files are found, and the head of each part that a wider file system gets. */
const MARGIN_BYTES = 4 * MIB;
const MARGIN_SHARE = 0.001;

/** Bytes of the file system, and those of them that are in use: by files, and by itself. */
export interface FileSystemUsage {
  totalBytes: number;
  usedBytes: number;
}

export async function readUsage(mountPoint: string): Promise<FileSystemUsage> {
  const { bsize, blocks, bfree } = await statfs(mountPoint);
  return { totalBytes: bsize * blocks, usedBytes: bsize * (blocks - bfree) };
}

/** Empty images are kept under this name. Each change of what is in one takes the next, or later disks would still be made without it. */
export const TEMPLATE_VERSION = 'v1';

/** An empty file system on a new sparse image, a little smaller than `sizeGB` wants: `widen` makes up for it. */
export async function makeFileSystem(image: string, sizeGB: number): Promise<void> {
  await writeFile(image, '');
  await truncate(image, sizeGB * BYTES_PER_GB + LOG_BYTES);
  // A file whose blocks are shared makes a device of such sectors, and no smaller ones can be mounted from that.
  await run('mkfs.xfs', ['-q', '-K', '-s', 'size=4096', '-m', 'reflink=0,rmapbt=0,finobt=0', image]);
}

/**
 * Widens a mounted file system until it holds `sizeGB` of files beside the `ownBytes` that it used when it was empty, whatever is written
 * meanwhile. One that is as wide already stays as it is. A widening that was cut off, or given up, has left an image that is longer than
 * its file system: it is cut to what is wanted now, or the file system would take all of it.
 */
export async function growFileSystem(
  image: string,
  mountPoint: string,
  sizeGB: number,
  ownBytes: number,
): Promise<void> {
  const { totalBytes } = await readUsage(mountPoint);
  const wantedBytes = sizeGB * BYTES_PER_GB * (1 + MARGIN_SHARE) + MARGIN_BYTES + ownBytes;
  if (totalBytes >= wantedBytes) return;
  await truncate(image, (await readLength(mountPoint)) + Math.ceil((wantedBytes - totalBytes) / MIB) * MIB);
  await refreshSize(await requireDevice(image));
  await run('xfs_growfs', ['-d', mountPoint]);
}

/** Bytes of a device that a mounted file system takes, its log included. */
async function readLength(mountPoint: string): Promise<number> {
  const { stdout } = await run('xfs_growfs', ['-n', mountPoint]);
  const match = /^data\s.*\bbsize=(\d+)\s+blocks=(\d+)/m.exec(stdout);
  if (match === null)
    throw new Error(`xfs_growfs does not say how long the file system on ${mountPoint} is: ${stdout}`);
  return Number(match[1]) * Number(match[2]);
}

async function requireDevice(image: string): Promise<string> {
  const device = await findLoopDevice(image);
  if (device === null) throw new Error(`${image} is mounted, and no device has it`);
  return device;
}

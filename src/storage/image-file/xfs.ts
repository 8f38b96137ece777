/**
 * XFS grows while mounted, and allocates inodes on demand, so small files can use all bytes:
 * `docs/decisions/0022-disks-are-xfs-in-image-files.md`.
 */
import { statfs, truncate, writeFile } from 'node:fs/promises';
import { BYTES_PER_GB } from '../../domain/storage/disk.ts';
import { run } from '../layout.ts';
import { findLoopDevice } from './image-mounts.ts';
import { allocateImage } from './sparse.ts';

const MIB = 1024 ** 2;
const LOG_BYTES = 64 * MIB;
/** Extents of large files, and headers of added allocation groups. */
const MARGIN_BYTES = 4 * MIB;
const MARGIN_SHARE = 0.001;

/** Bytes; `usedBytes` includes metadata. */
export interface FileSystemUsage {
  totalBytes: number;
  usedBytes: number;
}

export async function readUsage(mountPoint: string): Promise<FileSystemUsage> {
  const { bsize, blocks, bfree } = await statfs(mountPoint);
  return { totalBytes: bsize * blocks, usedBytes: bsize * (blocks - bfree) };
}

/** Increment with every change to empty images, or old templates stay in use. */
export const TEMPLATE_VERSION = 'v2';

/** Slightly smaller than `sizeGB`; `growFileSystem` adds the rest. */
export async function makeFileSystem(image: string, sizeGB: number): Promise<void> {
  await writeFile(image, '');
  await truncate(image, sizeGB * BYTES_PER_GB + LOG_BYTES);
  // Loop devices of reflinked images have 4096-byte sectors, and mount nothing with smaller ones.
  await run('mkfs.xfs', ['-q', '-K', '-s', 'size=4096', '-m', 'reflink=0,rmapbt=0,finobt=0', image]);
}

/**
 * Grows a mounted file system to `sizeGB` of files beside `ownBytes`; never shrinks. First
 * truncates an image left too long by an interrupted grow, since `xfs_growfs` would use all of it.
 */
export async function growFileSystem(
  image: string,
  mountPoint: string,
  { sizeGB, ownBytes, thick }: { sizeGB: number; ownBytes: number; thick: boolean },
): Promise<void> {
  const { totalBytes } = await readUsage(mountPoint);
  const wantedBytes = sizeGB * BYTES_PER_GB * (1 + MARGIN_SHARE) + MARGIN_BYTES + ownBytes;
  if (totalBytes >= wantedBytes) return;
  await truncate(image, (await readLength(mountPoint)) + Math.ceil((wantedBytes - totalBytes) / MIB) * MIB);
  if (thick) await allocateImage(image);
  const device = await findLoopDevice(image);
  if (device === null) throw new Error(`${image} is mounted, but no loop device is attached to it`);
  await run('losetup', ['-c', device]);
  await run('xfs_growfs', ['-d', mountPoint]);
}

/** Bytes of the device in use, including the log. */
async function readLength(mountPoint: string): Promise<number> {
  const { stdout } = await run('xfs_growfs', ['-n', mountPoint]);
  const match = /^data\s.*\bbsize=(\d+)\s+blocks=(\d+)/m.exec(stdout);
  if (match === null)
    throw new Error(`xfs_growfs did not report the size of the file system on ${mountPoint}: ${stdout}`);
  return Number(match[1]) * Number(match[2]);
}

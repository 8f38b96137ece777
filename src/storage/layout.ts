/** Layout: `<root>/<kind>/<id>/`, `.new-<id>` during creation, `.gone-<id>` during deletion. */
import { execFile, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  access,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { diskKinds, isDiskId, isIdPart, type DiskId } from '../domain/storage/disk.ts';
import { reservedBytes, type ReserveShare, type Space } from '../domain/storage/pool.ts';
import { errorCode, errorText } from '../domain/kernel/unknown-error.ts';
import { StorageFault, type DiskObservation } from './contract.ts';

export const run = promisify(execFile);

const TRANSIENT_NAME = /^\.(?:new|gone)-(.+)$/;

/** Marker of the installation; missing when the root is foreign or not mounted. */
const MARKER = '.berth-installation';

export interface DiskRoot {
  root: string;
  installation: string;
  reserveShare?: ReserveShare;
}

/** Creates the root of a new installation. Throws for the root of another installation. */
export async function prepareRoot(at: DiskRoot): Promise<void> {
  const { root, installation } = at;
  await mkdir(root, { recursive: true, mode: 0o711 });
  if (await isMarked(root)) return requireRoot(at);
  // On a full disk an empty marker would be that of another installation.
  const fresh = join(root, `${MARKER}.new`);
  await writeFile(fresh, `${installation}\n`, { flush: true });
  await moveDurably(fresh, join(root, MARKER));
}

const isMarked = (root: string): Promise<boolean> =>
  access(join(root, MARKER)).then(
    () => true,
    () => false,
  );

/** Returns why the disks are unreachable, or null. */
async function checkRoot({ root, installation }: DiskRoot): Promise<string | null> {
  try {
    const marked = (await readFile(join(root, MARKER), 'utf8')).trim();
    return marked === installation ? null : `the disks in ${root} belong to another installation, ${marked}`;
  } catch {
    return `the disks of this installation are not in ${root}; mount their file system there`;
  }
}

export async function requireRoot(at: DiskRoot): Promise<void> {
  const reason = await checkRoot(at);
  if (reason !== null) throw new Error(reason);
}

export interface DiskPaths {
  folder: string;
  staging: string;
  trash: string;
}

export function requireDiskId(disk: DiskId): void {
  if (!isDiskId(disk)) throw new Error(`not the id of a ${disk.kind} disk: ${JSON.stringify(disk.id)}`);
}

export function diskPaths(root: string, disk: DiskId): DiskPaths {
  requireDiskId(disk);
  const folder = join(root, disk.kind, disk.id);
  const sibling = (prefix: string): string => join(dirname(folder), `.${prefix}-${basename(folder)}`);
  return { folder, staging: sibling('new'), trash: sibling('gone') };
}

/** Present from completed creation to completed deletion; an unmounted root is unknown. */
export async function observeDisk(
  at: DiskRoot,
  disk: DiskId,
  sizeOf: (folder: string) => Promise<number | null>,
): Promise<DiskObservation> {
  const { folder, trash } = diskPaths(at.root, disk);
  try {
    if (await isFolder(folder)) return { kind: 'present', sizeGB: await sizeOf(folder) };
    if (await isFolder(trash)) return { kind: 'present', sizeGB: null };
    const reason = await checkRoot(at);
    return reason === null ? { kind: 'absent' } : { kind: 'unknown', reason };
  } catch (error) {
    return { kind: 'unknown', reason: errorText(error) };
  }
}

export async function listDisks(root: string): Promise<DiskId[]> {
  const disks: DiskId[] = [];
  for (const kind of diskKinds) {
    for (const name of await listIds(join(root, kind))) {
      if (kind !== 'shared') disks.push({ kind, id: name });
      else for (const inner of await listIds(join(root, kind, name))) disks.push({ kind, id: `${name}/${inner}` });
    }
  }
  return disks;
}

async function listIds(folder: string): Promise<string[]> {
  const found = await readdir(folder).catch(ifMissing([]));
  const names = found.map((name) => TRANSIENT_NAME.exec(name)?.[1] ?? name);
  return [...new Set(names)].filter(isIdPart);
}

export async function readSpace(root: string): Promise<Space> {
  const [{ bsize, blocks, bavail }, { dev }] = await Promise.all([statfs(root), stat(root)]);
  return { totalBytes: bsize * blocks, freeBytes: bsize * bavail, device: dev };
}

/** Types of `statfs` whose allocated blocks stay a file's until the file is deleted. */
const ALLOCATING = new Set([0xef53, 0x58465342]); // ext2 to ext4, XFS

export const canAllocateBlocks = async (root: string): Promise<boolean> => ALLOCATING.has((await statfs(root)).type);

export async function canReflink(root: string): Promise<boolean> {
  const [from, to] = [join(root, MARKER), join(root, '.reflink')];
  try {
    await run('cp', ['--reflink=always', '--', from, to]);
    return true;
  } catch {
    return false;
  } finally {
    await rm(to, { force: true });
  }
}

export const isMissing = (error: unknown): boolean => errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR';

/** Returns `value` for a missing file; throws any other error. */
export const ifMissing =
  <T>(value: T) =>
  (error: unknown): T => {
    if (isMissing(error)) return value;
    throw error;
  };

/** False for a link, which could leave the root. */
export const isFolder = (folder: string): Promise<boolean> =>
  lstat(folder).then((stat) => stat.isDirectory(), ifMissing(false));

export async function moveDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  const parent = await open(dirname(to));
  try {
    await parent.sync();
  } finally {
    await parent.close();
  }
}

/** Leaves trees to `rm`, for millions of files, paths over PATH_MAX, and denied permissions. */
export async function removeTree(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch (error) {
    if (isMissing(error)) return;
    await run('rm', ['-rf', '--one-file-system', '--', folder]).catch(async () => {
      await run('chmod', ['-R', 'u+rwX', '--', folder]).catch(() => {});
      await run('rm', ['-rf', '--one-file-system', '--', folder]);
    });
  }
}

/** Removes a disk's folder, renamed first: a half-deleted disk can't be mounted. */
export async function destroyFolder(
  { folder, trash }: DiskPaths,
  detach: (folder: string) => Promise<void> = async () => {},
): Promise<void> {
  await removeTree(trash);
  if (!(await isFolder(folder))) return;
  await detach(folder);
  await rename(folder, trash);
  await removeTree(trash);
}

export async function waitForExit(
  child: ChildProcess & { stderr: Readable },
): Promise<{ code: number | null; stderr: string }> {
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-STDERR_LIMIT)));
  const [code]: (number | null)[] = await once(child, 'close');
  return { code: code ?? null, stderr: stderr.trim() };
}

const STDERR_LIMIT = 4_096;

export const outOfSpace = (cause?: unknown): StorageFault =>
  new StorageFault('full', 'the storage of the region has too little free space for a copy', cause);

/** Throws `full` unless the host keeps its reserve after `bytes` more. */
export async function requireFreeSpace(
  { root, reserveShare = null }: Pick<DiskRoot, 'root' | 'reserveShare'>,
  bytes: number,
): Promise<void> {
  const { totalBytes, freeBytes } = await readSpace(root);
  if (freeBytes - bytes < reservedBytes(totalBytes, reserveShare)) throw outOfSpace();
}

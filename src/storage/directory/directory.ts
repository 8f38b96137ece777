/**
 * Disks as plain folders under one root: works on any file system without privileges. Sizes are soft: usage is measured, nothing
 * stops a writer. A disk is `<root>/<kind>/<id>/`; while it is deleted it is `.gone-<id>` beside it, and still there for `observe`,
 * so that a deletion that was cut short is begun again.
 */
import { execFile } from 'node:child_process';
import { lstat, mkdir, opendir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { DiskId, DiskKind, DiskObservation, Storage } from '../contract.ts';

const kinds: readonly DiskKind[] = ['volume', 'data', 'shared'];
const PART = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const BYTES_PER_BLOCK = 512;

const run = promisify(execFile);

export function makeDirectoryStorage({ root }: { root: string }): Storage {
  const folderOf = ({ kind, id }: DiskId): string => {
    const parts = id.split('/');
    if (parts.length !== (kind === 'shared' ? 2 : 1) || !parts.every((part) => PART.test(part))) {
      throw new Error(`not the id of a ${kind} disk: ${JSON.stringify(id)}`);
    }
    return join(root, kind, ...parts);
  };

  return {
    capabilities: () => ({ sizeLimit: 'soft', snapshots: false }),

    async create(disk) {
      const folder = folderOf(disk);
      if (await isFolder(folder)) return;
      await mkdir(dirname(folder), { recursive: true, mode: 0o711 });
      try {
        await mkdir(folder, { mode: 0o700 });
      } catch (error) {
        // Somebody else made it between the look and this, and may have files in it already.
        if (!(await isFolder(folder))) throw error;
      }
    },

    async mount(disk) {
      const folder = folderOf(disk);
      if (!(await isFolder(folder))) throw new Error(`the ${disk.kind} disk ${disk.id} does not exist`);
      return folder;
    },

    async observe(disk): Promise<DiskObservation> {
      const folder = folderOf(disk);
      try {
        if (await isFolder(folder)) return { kind: 'present', usageBytes: await usedBytes(folder) };
        if (await isFolder(doomedOf(folder))) return { kind: 'present', usageBytes: 0 };
        // Without its root nothing is known: a file system that is not mounted must not read as lost data.
        return (await stat(root)).isDirectory()
          ? { kind: 'absent' }
          : { kind: 'unknown', reason: `${root} is no folder` };
      } catch (error) {
        return { kind: 'unknown', reason: error instanceof Error ? error.message : String(error) };
      }
    },

    async destroy(disk) {
      const folder = folderOf(disk);
      const doomed = doomedOf(folder);
      await removeTree(doomed);
      if (!(await isFolder(folder))) return;
      // Renamed first: what is half deleted can't be mounted any more, and a new one of the name starts empty.
      await rename(folder, doomed);
      await removeTree(doomed);
    },

    async listOwned() {
      const found: DiskId[] = [];
      for (const kind of kinds) {
        for (const name of await names(join(root, kind))) {
          if (kind !== 'shared') found.push({ kind, id: name });
          else for (const inner of await names(join(root, kind, name))) found.push({ kind, id: `${name}/${inner}` });
        }
      }
      return found;
    },
  };
}

const doomedOf = (folder: string): string => join(dirname(folder), `.gone-${basename(folder)}`);

const codeOf = (error: unknown): unknown => (error instanceof Error && 'code' in error ? error.code : undefined);
const isMissing = (error: unknown): boolean => codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';

/** A link to a folder is none: it would lead out of the root. */
async function isFolder(folder: string): Promise<boolean> {
  try {
    return (await lstat(folder)).isDirectory();
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

async function names(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => PART.test(name));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/**
 * Instances nest folders deeper than a path may be long, and take away permissions that an owner who is not root needs: the
 * system's own tools get through both. They are asked only then, because a process costs more than an empty disk.
 */
async function removeTree(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    await run('chmod', ['-R', 'u+rwX', '--', folder]).catch(() => {});
    await run('rm', ['-rf', '--', folder]);
  }
}

/**
 * Allocated bytes of a tree, hard links counted once; links are not followed. Files may come and go meanwhile; what can't be
 * looked into, or lies too deep for a path, is not counted.
 */
async function usedBytes(folder: string): Promise<number> {
  const seen = new Set<string>();
  let bytes = 0;
  const walk = async (path: string): Promise<void> => {
    const entries = await opendir(path).catch(unlessOutOfReach);
    for await (const entry of entries ?? []) {
      const inner = join(path, entry.name);
      const found = await lstat(inner).catch(unlessOutOfReach);
      if (!found) continue;
      const isFolder = entry.isDirectory() && found.isDirectory();
      const key = `${found.dev}:${found.ino}`;
      if (found.nlink > 1 && !isFolder && seen.has(key)) continue;
      if (found.nlink > 1 && !isFolder) seen.add(key);
      bytes += found.blocks * BYTES_PER_BLOCK;
      if (isFolder) await walk(inner);
    }
  };
  await walk(folder);
  return bytes;
}

function unlessOutOfReach(error: unknown): null {
  if (isMissing(error) || codeOf(error) === 'ENAMETOOLONG' || codeOf(error) === 'EACCES') return null;
  throw error;
}

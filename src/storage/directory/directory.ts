/**
 * Disks as plain folders under one root: works on any file system without privileges. Sizes are soft: usage is measured, nothing
 * stops a writer. `<root>/<kind>/<id>/` is made by an atomic rename, so that a half-made one is never mistaken for a whole.
 */
import { lstat, mkdir, mkdtemp, opendir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { DiskId, DiskKind, DiskObservation, Storage } from '../contract.ts';

const kinds: readonly DiskKind[] = ['volume', 'data', 'shared'];
const PART = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const BYTES_PER_BLOCK = 512;

export function makeDirectoryStorage({ root }: { root: string }): Storage {
  const folderOf = ({ kind, id }: DiskId): string => {
    const parts = id.split('/');
    if (!parts.every((part) => PART.test(part))) throw new Error(`not the id of a ${kind} disk: ${JSON.stringify(id)}`);
    return join(root, kind, ...parts);
  };
  const exists = async (folder: string): Promise<boolean> => {
    try {
      return (await stat(folder)).isDirectory();
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  };

  return {
    capabilities: () => ({ sizeLimit: 'soft', snapshots: false }),

    async create(disk) {
      const folder = folderOf(disk);
      if (await exists(folder)) return;
      const parent = join(folder, '..');
      await mkdir(parent, { recursive: true, mode: 0o711 });
      const fresh = await mkdtemp(join(parent, '.new-'));
      try {
        await rename(fresh, folder);
      } catch (error) {
        await rm(fresh, { recursive: true, force: true });
        // Somebody else made it between the look and the rename, and may have files in it already.
        if (!(await exists(folder))) throw error;
      }
    },

    async mount(disk) {
      const folder = folderOf(disk);
      if (!(await exists(folder))) throw new Error(`the ${disk.kind} disk ${disk.id} does not exist`);
      return folder;
    },

    async observe(disk): Promise<DiskObservation> {
      const folder = folderOf(disk);
      try {
        if (!(await exists(folder))) {
          // Without its root nothing is known: a file system that is not mounted must not read as lost data.
          return (await exists(root)) ? { kind: 'absent' } : { kind: 'unknown', reason: `${root} is not there` };
        }
        return { kind: 'present', usageBytes: await usedBytes(folder) };
      } catch (error) {
        return { kind: 'unknown', reason: error instanceof Error ? error.message : String(error) };
      }
    },

    async destroy(disk) {
      const folder = folderOf(disk);
      if (!(await exists(folder))) return;
      // Renamed first: what is half deleted is no disk any more, and a new one of the name starts empty.
      const doomed = await mkdtemp(join(folder, '..', '.gone-'));
      await rename(folder, join(doomed, 'disk'));
      await rm(doomed, { recursive: true, force: true });
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

const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');

async function names(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => PART.test(name));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Allocated bytes of a tree, hard links counted once; never follows a link out of it. Files may come and go meanwhile. */
async function usedBytes(folder: string): Promise<number> {
  const seen = new Set<string>();
  let bytes = 0;
  const walk = async (path: string): Promise<void> => {
    try {
      for await (const entry of await opendir(path)) {
        const inner = join(path, entry.name);
        const { blocks, nlink, dev, ino } = await lstat(inner);
        const key = `${dev}:${ino}`;
        if (nlink > 1 && !entry.isDirectory() && seen.has(key)) continue;
        if (nlink > 1) seen.add(key);
        bytes += blocks * BYTES_PER_BLOCK;
        if (entry.isDirectory()) await walk(inner);
      }
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  };
  await walk(folder);
  return bytes;
}

/**
 * Disks as plain folders under one root: works on any file system without privileges. Sizes are soft: usage is measured, nothing
 * stops a writer. A disk is `<root>/<kind>/<id>/files/`: instances get `files` alone and may set any mode on it, while the folder
 * above it stays ours, so that no other account of the host reaches what they leave there. While it is deleted it is `.gone-<id>`
 * beside it, and still there for `observe`, so that a deletion that was cut short is begun again.
 */
import { execFile } from 'node:child_process';
import { lstat, mkdir, readdir, readFile, rename, rmdir, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { DiskId, DiskKind, DiskObservation, Storage } from '../contract.ts';

const kinds: readonly DiskKind[] = ['volume', 'data', 'shared'];
const PART = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
/** Bytes of a block as `du -k` counts, and as stat does. */
const DU_BLOCK = 1024;
const STAT_BLOCK = 512;

const run = promisify(execFile);

/** Names the installation whose disks these are. Without it they are somebody else's, or not mounted. */
const MARKER = '.berth-installation';

/** Makes the root of an installation that never had one; later, a root that is not there is not replaced by an empty one. */
export async function makeRoot({ root, installation }: { root: string; installation: string }): Promise<void> {
  await mkdir(root, { recursive: true, mode: 0o711 });
  await writeFile(join(root, MARKER), `${installation}\n`);
}

export function makeDirectoryStorage({ root, installation }: { root: string; installation: string }): Storage {
  /** Why nothing can be said of these disks now; null when they are there. */
  const whyUnknown = async (): Promise<string | null> => {
    try {
      const marked = (await readFile(join(root, MARKER), 'utf8')).trim();
      return marked === installation ? null : `the disks in ${root} belong to another installation, ${marked}`;
    } catch {
      return `the disks of this installation are not in ${root}; mount them there`;
    }
  };
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
      const reason = await whyUnknown();
      if (reason !== null) throw new Error(reason);
      await mkdir(dirname(folder), { recursive: true, mode: 0o711 });
      for (const each of [folder, filesOf(folder)]) {
        if (await isFolder(each)) continue;
        try {
          await mkdir(each, { mode: 0o700 });
        } catch (error) {
          // Somebody else made it between the look and this, and may have files in it already.
          if (!(await isFolder(each))) throw error;
        }
      }
    },

    async mount(disk) {
      const files = filesOf(folderOf(disk));
      if (!(await isFolder(files))) throw new Error(`the ${disk.kind} disk ${disk.id} does not exist`);
      return files;
    },

    async observe(disk): Promise<DiskObservation> {
      const folder = folderOf(disk);
      try {
        if (await isFolder(filesOf(folder))) return { kind: 'present' };
        if (await isFolder(doomedOf(folder))) return { kind: 'present' };
        // A file system that is not mounted must not read as lost data.
        const reason = await whyUnknown();
        return reason === null ? { kind: 'absent' } : { kind: 'unknown', reason };
      } catch (error) {
        return { kind: 'unknown', reason: error instanceof Error ? error.message : String(error) };
      }
    },

    usage: (disk, signal) => usedBytes(filesOf(folderOf(disk)), signal),

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

const filesOf = (folder: string): string => join(folder, 'files');
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
 * An empty folder goes at once. A tree is left to a process of its own: millions of files would keep this one from everything else,
 * instances nest folders deeper than a path may be long, and take away permissions that an owner who is not root needs.
 */
async function removeTree(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch (error) {
    if (isMissing(error)) return;
    await run('rm', ['-rf', '--', folder]).catch(async () => {
      await run('chmod', ['-R', 'u+rwX', '--', folder]).catch(() => {});
      await run('rm', ['-rf', '--', folder]);
    });
  }
}

/**
 * Allocated bytes of a tree, hard links counted once, links not followed, by a process of its own: walking a million files would
 * keep this one from everything else. Files may come and go meanwhile: `du` then fails, and has counted the rest.
 */
async function usedBytes(folder: string, signal: AbortSignal): Promise<number | null> {
  // The folder itself is ours: an empty disk uses nothing.
  const own = await lstat(folder).catch(() => null);
  if (own === null) return null;
  return new Promise((resolve, reject) => {
    execFile('du', ['-skx', '--', folder], { signal }, (error, stdout) => {
      if (signal.aborted) return reject(error ?? new Error('called off'));
      const blocks = /^(\d+)\s/.exec(stdout)?.[1];
      resolve(blocks === undefined ? null : Math.max(0, Number(blocks) * DU_BLOCK - own.blocks * STAT_BLOCK));
    });
  });
}

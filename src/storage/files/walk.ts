/**
 * Opens paths name by name, relative to the parent's handle and without following links, since an
 * instance may swap a folder for a link at any time. `O_PATH` opens no device and waits for no
 * pipe. Node lacks `openat`; `/proc/self/fd/<n>/<name>` is equivalent.
 */
import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { namesOf, refusalOfFilePath, type FileKind } from '../../domain/storage/paths.ts';
import { asFault, FileFault, nullIfMissing } from './fault.ts';

/** Not in Node's constants; equal on x64 and arm64. */
const O_PATH = 0o10000000;
const { O_NOFOLLOW, O_DIRECTORY } = constants;

interface Stat {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}

export function kindOf(stat: Stat): FileKind {
  if (stat.isFile()) return 'file';
  if (stat.isDirectory()) return 'folder';
  return stat.isSymbolicLink() ? 'link' : 'other';
}

export const kindPhrases: Record<FileKind, string> = {
  file: 'a file',
  folder: 'a folder',
  link: 'a symbolic link, which is not followed',
  other: 'a pipe, socket or device, which is not opened',
};

export const handlePath = (handle: FileHandle): string => `/proc/self/fd/${handle.fd}`;
export const childPath = (folder: FileHandle, name: string): string => `${handlePath(folder)}/${name}`;

export function parsePath(path: string): string[] {
  const refusal = refusalOfFilePath(path);
  if (refusal !== null) throw new FileFault('badPath', `the path ${refusal}`);
  return namesOf(path);
}

export function splitPath(path: string): { parent: string[]; name: string } {
  const parent = parsePath(path);
  const name = parent.pop();
  if (name === undefined) throw new FileFault('badPath', 'the path is empty: name a file or folder in the volume');
  return { parent, name };
}

/** Opens with `O_PATH`, without access to content; null when absent. */
export const openPath = (folder: FileHandle, name: string): Promise<FileHandle | null> =>
  open(childPath(folder, name), O_PATH | O_NOFOLLOW).catch(nullIfMissing);

export async function withHandle<T>(handle: FileHandle, use: (handle: FileHandle) => Promise<T>): Promise<T> {
  try {
    return await use(handle);
  } finally {
    await handle.close();
  }
}

/** Runs `use` with the folder's handle. `onMissing` may create a missing folder. */
export async function withFolder<T>(
  root: string,
  names: readonly string[],
  use: (folder: FileHandle) => Promise<T>,
  onMissing: (parent: FileHandle, name: string) => Promise<void> = async () => {},
): Promise<T> {
  let folder = await open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  try {
    for (const [index, name] of names.entries()) {
      const path = names.slice(0, index + 1).join('/');
      const next = await openChildFolder(folder, name, path, onMissing);
      await folder.close();
      folder = next;
    }
    return await use(folder);
  } catch (error) {
    throw asFault(error, names.join('/'));
  } finally {
    await folder.close();
  }
}

async function openChildFolder(
  parent: FileHandle,
  name: string,
  path: string,
  onMissing: (parent: FileHandle, name: string) => Promise<void>,
): Promise<FileHandle> {
  let child = await openPath(parent, name);
  if (child === null) {
    await onMissing(parent, name);
    child = await openPath(parent, name);
  }
  if (child === null) throw new FileFault('notFound', `the folder "${path}" does not exist`);
  try {
    const kind = kindOf(await child.stat());
    if (kind === 'folder') return child;
    throw new FileFault('wrongKind', `"${path}" is ${kindPhrases[kind]}, not a folder`);
  } catch (error) {
    await child.close();
    throw error;
  }
}

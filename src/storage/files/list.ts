/**
 * What is in a folder, a page at a time, by name. Nothing is kept between pages: each goes through the whole folder as the kernel
 * gives it out, and keeps the names that come next, so that a folder of a million files costs a page's memory and a second of a
 * background thread, and what is added or deleted meanwhile neither shifts nor doubles the rest.
 */
import { isUtf8 } from 'node:buffer';
import { lstat, opendir, type FileHandle } from 'node:fs/promises';
import type { FileKind } from '../../domain/file-path.ts';
import { codeOf, FileFault } from './fault.ts';
import { handlePath, kindOf, parsePath, withFolder } from './walk.ts';

export interface FolderEntry {
  /** With U+FFFD for what is no UTF-8. */
  name: string;
  /** False for a name that is no UTF-8, which no path can say. */
  reachable: boolean;
  kind: FileKind;
  sizeBytes: number;
  modifiedAtMs: number;
  /** Permissions, in octal. */
  mode: string;
}

export interface FolderPage {
  entries: FolderEntry[];
  /** Where the next page begins; null when there is none. */
  next: string | null;
}

export async function listFolder(
  root: string,
  path: string,
  { limit, after }: { limit: number; after: string | null },
  signal: AbortSignal,
): Promise<FolderPage> {
  const afterName = after === null ? '' : Buffer.from(after, 'base64url').toString('latin1');
  if (after !== null && Buffer.from(afterName, 'latin1').toString('base64url') !== after)
    throw new FileFault('badPath', 'the member "after" is none that a list gave out as "next"; leave it out to begin');
  return withFolder(root, parsePath(path), async (folder) => {
    const names = await namesAfter(folder, afterName, limit + 1, signal);
    const shown = names.slice(0, limit);
    const entries = await Promise.all(shown.map((name) => readEntry(folder, Buffer.from(name, 'latin1'))));
    const end = names.length > limit ? shown.at(-1) : undefined;
    return {
      entries: entries.filter((entry) => entry !== null),
      next: end === undefined ? null : Buffer.from(end, 'latin1').toString('base64url'),
    };
  });
}

const READDIR_BATCH = 1024;

/** The first names after one, in the order of their bytes; as Latin-1, which has a character for each byte. */
async function namesAfter(
  folder: FileHandle,
  afterName: string,
  count: number,
  signal: AbortSignal,
): Promise<string[]> {
  let names: string[] = [];
  for await (const { name } of await opendir(handlePath(folder), { encoding: 'latin1', bufferSize: READDIR_BATCH })) {
    signal.throwIfAborted();
    if (name > afterName) names.push(name);
    if (names.length >= 2 * count) names = firstNames(names, count);
  }
  return firstNames(names, count);
}

const firstNames = (names: string[], count: number): string[] => names.sort((a, b) => (a < b ? -1 : 1)).slice(0, count);

/** Null when it is gone since. */
async function readEntry(folder: FileHandle, name: Buffer): Promise<FolderEntry | null> {
  try {
    const stat = await lstat(Buffer.concat([Buffer.from(`${handlePath(folder)}/`), name]));
    return {
      name: name.toString('utf8'),
      reachable: isUtf8(name),
      kind: kindOf(stat),
      sizeBytes: stat.size,
      modifiedAtMs: Math.floor(stat.mtimeMs),
      mode: (stat.mode & 0o7777).toString(8).padStart(4, '0'),
    };
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

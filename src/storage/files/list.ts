/**
 * Lists pages by name without server state: concurrent changes neither shift nor repeat entries.
 */
import { isUtf8 } from 'node:buffer';
import { lstat, opendir, type FileHandle } from 'node:fs/promises';
import type { FileKind } from '../../domain/storage/paths.ts';
import { FileFault, nullIfMissing } from './fault.ts';
import { handlePath, kindOf, parsePath, withFolder } from './walk.ts';

export interface FolderEntry {
  /** Invalid UTF-8 becomes U+FFFD. */
  name: string;
  /** False for invalid UTF-8, which no path can contain. */
  reachable: boolean;
  kind: FileKind;
  sizeBytes: number;
  modifiedAtMs: number;
  mode: string;
}

export interface FolderPage {
  entries: FolderEntry[];
  next: string | null;
}

export interface PageRequest {
  limit: number;
  /** `next` of the previous page; null for the first. */
  after: string | null;
}

export async function listFolder(
  root: string,
  path: string,
  { limit, after }: PageRequest,
  signal: AbortSignal,
): Promise<FolderPage> {
  const page = makePage({ limit, after });
  return withFolder(root, parsePath(path), async (folder) => {
    for await (const { name } of await opendir(handlePath(folder), { encoding: 'latin1', bufferSize: READDIR_BATCH })) {
      signal.throwIfAborted();
      page.add(name);
    }
    const { names, next } = page.end();
    const entries = await Promise.all(names.map((name) => readEntry(folder, Buffer.from(name, 'latin1'))));
    return { entries: entries.filter((entry) => entry !== null), next };
  });
}

const READDIR_BATCH = 1024;

/**
 * Collects the names of one page in byte order, in bounded memory. Names are Latin-1: one character
 * per byte. Throws for an `after` that no page has returned.
 */
export function makePage({ limit, after }: PageRequest) {
  const afterName = after === null ? '' : Buffer.from(after, 'base64url').toString('latin1');
  if (after !== null && cursorOf(afterName) !== after)
    throw new FileFault(
      'badPath',
      'field "after" is not a value that a list returned as "next"; leave the field out to begin at the first entry',
    );
  const count = limit + 1;
  let names: string[] = [];
  return {
    add(name: string): void {
      if (name > afterName) names.push(name);
      if (names.length >= 2 * count) names = firstNames(names, count);
    },
    end(): { names: string[]; next: string | null } {
      names = firstNames(names, count);
      const shown = names.slice(0, limit);
      const last = names.length > limit ? shown.at(-1) : undefined;
      return { names: shown, next: last === undefined ? null : cursorOf(last) };
    },
  };
}

const cursorOf = (name: string): string => Buffer.from(name, 'latin1').toString('base64url');

const firstNames = (names: string[], count: number): string[] => names.sort((a, b) => (a < b ? -1 : 1)).slice(0, count);

async function readEntry(folder: FileHandle, name: Buffer): Promise<FolderEntry | null> {
  const path = Buffer.concat([Buffer.from(`${handlePath(folder)}/`), name]);
  const stat = await lstat(path).catch(nullIfMissing);
  if (stat === null) return null;
  return folderEntry(name, {
    kind: kindOf(stat),
    sizeBytes: stat.size,
    modifiedAtMs: Math.floor(stat.mtimeMs),
    mode: stat.mode,
  });
}

export const folderEntry = (
  name: Buffer,
  { mode, ...stat }: Pick<FolderEntry, 'kind' | 'sizeBytes' | 'modifiedAtMs'> & { mode: number },
): FolderEntry => ({
  name: name.toString('utf8'),
  reachable: isUtf8(name),
  ...stat,
  mode: (mode & 0o7777).toString(8).padStart(4, '0'),
});

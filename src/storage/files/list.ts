/**
 * Lists pages by name without server state: concurrent changes neither shift nor repeat entries.
 */
import { isUtf8 } from 'node:buffer';
import { lstat, opendir, type FileHandle } from 'node:fs/promises';
import type { FileKind } from '../../domain/paths.ts';
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
  const afterName = after === null ? '' : Buffer.from(after, 'base64url').toString('latin1');
  if (after !== null && Buffer.from(afterName, 'latin1').toString('base64url') !== after)
    throw new FileFault(
      'badPath',
      'field "after" is not a value that a list returned as "next"; leave the field out to begin at the first entry',
    );
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

/** First names after `afterName` in byte order, as Latin-1: one character per byte. */
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

async function readEntry(folder: FileHandle, name: Buffer): Promise<FolderEntry | null> {
  const path = Buffer.concat([Buffer.from(`${handlePath(folder)}/`), name]);
  const stat = await lstat(path).catch(nullIfMissing);
  if (stat === null) return null;
  return {
    name: name.toString('utf8'),
    reachable: isUtf8(name),
    kind: kindOf(stat),
    sizeBytes: stat.size,
    modifiedAtMs: Math.floor(stat.mtimeMs),
    mode: (stat.mode & 0o7777).toString(8).padStart(4, '0'),
  };
}

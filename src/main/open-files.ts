/** Connection limits derived from the process's limit of open files. */
import { readFile } from 'node:fs/promises';

/** Files for store, API and engine; a quarter if the limit is small. */
const RESERVED_FILES = 1_024;
const MIN_RESERVED_FILES = 64;

/** Files for the built-in ssh server; a quarter of the rest if the limit is small. */
const MAX_SSH_FILES = 8_192;

const filesForClients = (openFiles: number): number =>
  openFiles - Math.max(MIN_RESERVED_FILES, Math.min(RESERVED_FILES, Math.floor(openFiles / 4)));

export const sshFilesOf = (openFiles: number): number =>
  Math.max(1, Math.min(MAX_SSH_FILES, Math.floor(filesForClients(openFiles) / 4)));

/**
 * Half of the files: each client connection may need one to an instance. Node already raised the
 * soft limit.
 */
export const connectionsOf = (openFiles: number): number =>
  Math.max(1, Math.floor((filesForClients(openFiles) - sshFilesOf(openFiles)) / 2));

export const sshFiles = async (): Promise<number> => sshFilesOf((await openFilesLimit()) ?? Infinity);

/** Null if the system does not report the limit. */
export async function openFilesLimit(): Promise<number | null> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const text = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return text === undefined ? null : Number(text);
}

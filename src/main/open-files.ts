/** What the files that this process may open are enough for. */
import { readFile } from 'node:fs/promises';

/** For the store, the API, the engine and what else is open; of few files a part. */
const SPARE = 1_024;
const LEAST_SPARE = 64;

/** Connections, ports and commands of the ssh fronts, which are in the process of the gateway; of few files a part. */
const SSH = 8_192;

const restOf = (openFiles: number): number =>
  openFiles - Math.max(LEAST_SPARE, Math.min(SPARE, Math.floor(openFiles / 4)));

export const sshFilesOf = (openFiles: number): number => Math.max(1, Math.min(SSH, Math.floor(restOf(openFiles) / 4)));

/** Each client's connection may need one to an instance. Node has raised the limit as far as it may. */
export const connectionsOf = (openFiles: number): number =>
  Math.max(1, Math.floor((restOf(openFiles) - sshFilesOf(openFiles)) / 2));

export const sshFiles = async (): Promise<number> => sshFilesOf((await openFilesLimit()) ?? Infinity);

/** Null where the system does not tell. */
export async function openFilesLimit(): Promise<number | null> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const text = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return text === undefined ? null : Number(text);
}

/** How many connections the files that this process may open are enough for. */
import { readFile } from 'node:fs/promises';

/** For the store, the API, the engine and what else is open; of few files a part. */
const SPARE = 1_024;
const LEAST_SPARE = 64;

/** Each client's connection may need one to an instance. Node has raised the limit as far as it may. */
export function connectionsOf(openFiles: number): number {
  const spare = Math.max(LEAST_SPARE, Math.min(SPARE, Math.floor(openFiles / 4)));
  return Math.max(1, Math.floor((openFiles - spare) / 2));
}

/** Null where the system does not tell. */
export async function openFilesLimit(): Promise<number | null> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '');
  const text = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  return text === undefined ? null : Number(text);
}

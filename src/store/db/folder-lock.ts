/**
 * Allows one process per data folder, by an exclusive SQLite transaction (Node has no flock):
 * the lock ends with the process. A text next to the file names the holder, for people only.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { errcodeOf, isStorageFull } from './errors.ts';

const SQLITE_BUSY = 5;

export interface FolderLock {
  release(): void;
}

/** Throws, with the holder's name, when a process (this one included) has the folder. */
export function lockFolder(folder: string): FolderLock {
  const holderFile = join(folder, 'berth.lock.holder');
  const database = new DatabaseSync(join(folder, 'berth.lock'), { timeout: 0 });
  try {
    database.exec('pragma journal_mode = off');
    database.exec('begin exclusive');
  } catch (error) {
    database.close();
    if (((errcodeOf(error) ?? 0) & 0xff) !== SQLITE_BUSY) throw error;
    throw new Error(
      `The data folder ${folder} is in use by another Berth: ${holderOf(holderFile)}. Stop the other Berth, or set another folder in BERTH_DATA.`,
      { cause: error },
    );
  }
  const holder = `process ${process.pid} on ${hostname()}, since ${new Date().toISOString()}`;
  try {
    writeFileSync(holderFile, `${holder}\n`);
  } catch (error) {
    // A full disk stops no start.
    if (!isStorageFull(error)) throw error;
  }
  let isHeld = true;
  return {
    release() {
      if (!isHeld) return;
      isHeld = false;
      rmSync(holderFile, { force: true });
      database.close();
    },
  };
}

function holderOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return 'its process is unknown';
  }
}

/**
 * One process for each data folder. The lock is the operating system's on a file of its own (held by SQLite as an exclusive
 * transaction, which Node has built in, unlike flock), so it dies with its process however that dies. Beside it stands a text that
 * names the holder: words for people, never what decides.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { errcodeOf } from './errors.ts';

const SQLITE_BUSY = 5;

export interface FolderLock {
  release(): void;
}

/** Throws, naming the holder, when another process (or this one) has the folder already. */
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
      `The data folder ${folder} is in use by another Berth: ${holderOf(holderFile)}. Stop that one first, or give this one another folder.`,
      { cause: error },
    );
  }
  const holder = `process ${process.pid} on ${hostname()}, since ${new Date().toISOString()}`;
  writeFileSync(holderFile, `${holder}\n`);
  let held = true;
  return {
    release() {
      if (!held) return;
      held = false;
      rmSync(holderFile, { force: true });
      database.close();
    },
  };
}

function holderOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return 'it has not said which process it is';
  }
}

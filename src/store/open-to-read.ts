/** Opens a database to read, beside a server or without one: takes no lock, migrates nothing. */
import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { kyselyOver, SqliteConnection } from './db/sqlite-kysely.ts';
import type { Db } from './store.ts';

export interface ReadOnlyStore {
  read: Db;
  stop(): Promise<void>;
}

export async function openToRead({ url, file }: { url: string | null; file: string }): Promise<ReadOnlyStore> {
  if (url !== null) {
    const { openPostgresToRead } = await import('./db/postgres.ts');
    return openPostgresToRead(url);
  }
  if (!existsSync(file)) throw new Error(`There is no database at ${file}: set BERTH_DATA to the data folder.`);
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
  return { read: kyselyOver(new SqliteConnection(database)).db, stop: async () => database.close() };
}

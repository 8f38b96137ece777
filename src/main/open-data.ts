import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { lockDatabase, permanentHold } from '../store/db/database-lock.ts';
import { lockFolder } from '../store/db/folder-lock.ts';
import { reachPostgres } from '../store/db/reach-postgres.ts';
import { noReserve, openSpaceReserve } from '../store/db/space-reserve.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import type { Config } from './config.ts';
import type { ControlDeps } from './control.ts';

export type Guards = Required<Pick<ControlDeps, 'reserve' | 'hold'>>;

/** Locks the data folder and the database, and opens the store. */
export async function openData(
  options: { config: Config; log: Logger; onDatabaseLost?: () => void },
  cleanups: (() => Promise<unknown>)[],
): Promise<{ store: Store } & Guards> {
  const { config, log, onDatabaseLost = () => {} } = options;
  const { dataFolder, databaseUrl } = config;
  await mkdir(dataFolder, { recursive: true, mode: 0o711 });
  const lock = lockFolder(dataFolder);
  cleanups.push(async () => lock.release());
  let hold = permanentHold;
  let dropConnections = (): void => {};
  if (databaseUrl !== null) {
    await reachPostgres({ url: databaseUrl, log });
    const onSilence = (): void => dropConnections();
    const databaseLock = await lockDatabase({ url: databaseUrl, log, onLost: onDatabaseLost, onSilence });
    cleanups.push(() => databaseLock.release());
    hold = databaseLock;
  }
  // Before the store: its first writes may need the space.
  const reserve = databaseUrl === null ? await openSpaceReserve({ folder: dataFolder, log }) : noReserve;
  const file = join(dataFolder, 'berth.db');
  const store = await openStore({ url: databaseUrl ?? undefined, file, log, reserve });
  dropConnections = () => store.dropConnections?.();
  cleanups.push(() => store.stop());
  // The log that a killed server left has taken what was free.
  await reserve.check();
  return { store, reserve, hold };
}

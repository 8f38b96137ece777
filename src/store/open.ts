/**
 * PostgreSQL for a `url`, else SQLite on `file`: acquire the folder's lock (`lockFolder`) first.
 */
import { fromFiles, type Migration, type MigrationTarget } from './db/migrate.ts';
import type { SpaceReserve } from './db/space-reserve.ts';
import { openSqlite } from './db/sqlite.ts';
import type { Store, StoreLog } from './store.ts';

/** Every migration, in order; a new one at the end: a file of each database, or a function. */
export const migrations: readonly Migration[] = [
  fromFiles('0001-schema'),
  fromFiles('0002-due-acts'),
  fromFiles('0003-gpus-by-name'),
  fromFiles('0004-quarantine'),
  fromFiles('0005-region-use'),
  fromFiles('0006-gpu-shares'),
  fromFiles('0007-gpu-use'),
  fromFiles('0008-provider-logins'),
  fromFiles('0009-second-factor'),
  fromFiles('0010-amortization'),
  fromFiles('0010-payment-claims'),
  fromFiles('0011-watches'),
  fromFiles('0012-root-disks'),
  fromFiles('0013-image-facts'),
  fromFiles('0014-wake'),
  fromFiles('0015-placement'),
];

export async function openStore(options: {
  url?: string | undefined;
  file?: string | undefined;
  log: StoreLog;
  connectTimeoutMs?: number | undefined;
  /** For SQLite. */
  reserve?: SpaceReserve | undefined;
  /** Runs before the migrations. */
  prepare?: ((database: MigrationTarget) => Promise<void>) | undefined;
}): Promise<Store> {
  const { url, file, log, connectTimeoutMs, reserve, prepare } = options;
  if (url) {
    if (!/^postgres(ql)?:\/\//.test(url)) {
      throw new Error(
        'The database URL must begin with postgres:// or postgresql://. For SQLite, leave BERTH_DATABASE_URL unset.',
      );
    }
    const { openPostgres } = await import('./db/postgres.ts');
    return openPostgres({ url, migrations, log, connectTimeoutMs, prepare });
  }
  if (file) return openSqlite({ file, migrations, log, reserve, prepare });
  throw new Error('The store needs a postgres:// URL or the path of an SQLite file.');
}

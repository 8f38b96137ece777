/**
 * PostgreSQL for a `url`, else SQLite on `file`: acquire the folder's lock (`lockFolder`) first.
 */
import { initial } from './migrations/0001-initial.ts';
import { promisedDisks } from './migrations/0002-promised-disks.ts';
import { runtimes } from './migrations/0003-runtimes.ts';
import { disksByRegion } from './migrations/0004-disks-by-region.ts';
import { variables } from './migrations/0005-variables.ts';
import { changes } from './migrations/0006-changes.ts';
import { labels } from './migrations/0007-labels.ts';
import { accounts } from './migrations/0008-accounts.ts';
import { keyLimits } from './migrations/0009-key-limits.ts';
import { catalog } from './migrations/0010-catalog.ts';
import { quotas } from './migrations/0011-quotas.ts';
import { drain } from './migrations/0012-drain.ts';
import { audit } from './migrations/0013-audit.ts';
import { egress } from './migrations/0014-egress.ts';
import { identities } from './migrations/0016-identities.ts';
import { webhooks } from './migrations/0017-webhooks.ts';
import { instanceTypeIndex } from './migrations/0018-instance-type-index.ts';
import { billing } from './migrations/0019-billing.ts';
import { paidTime } from './migrations/0020-paid-time.ts';
import { notices } from './migrations/0021-notices.ts';
import { prices } from './migrations/0022-prices.ts';
import { payments } from './migrations/0023-payments.ts';
import { budgets } from './migrations/0024-budgets.ts';
import { scheduledPrices } from './migrations/0025-scheduled-prices.ts';
import { regions } from './migrations/0026-regions.ts';
import { entryIndex } from './migrations/0027-entry-index.ts';
import { capacityHolders } from './migrations/0028-capacity-holders.ts';
import { templates } from './migrations/0029-templates.ts';
import { listOrder } from './migrations/0030-list-order.ts';
import { timeZones } from './migrations/0033-time-zones.ts';
import { booksByHour } from './migrations/0040-books-by-hour.ts';
import { chargedStarts } from './migrations/0043-charged-starts.ts';
import { webhookBacklog } from './migrations/0044-webhook-backlog.ts';
import { regionNames } from './migrations/0047-region-names.ts';
import { bookedTimeIndex } from './migrations/0048-booked-time-index.ts';
import type { Migration } from './db/migrate.ts';
import type { SpaceReserve } from './db/space-reserve.ts';
import { openSqlite } from './db/sqlite.ts';
import type { Store, StoreLog } from './store.ts';

/** Every migration, in order. A new one is a new file, added at the end. */
export const migrations: readonly Migration[] = [
  initial,
  promisedDisks,
  runtimes,
  disksByRegion,
  variables,
  changes,
  labels,
  accounts,
  keyLimits,
  catalog,
  quotas,
  drain,
  audit,
  egress,
  identities,
  webhooks,
  instanceTypeIndex,
  billing,
  paidTime,
  notices,
  prices,
  payments,
  budgets,
  scheduledPrices,
  regions,
  entryIndex,
  capacityHolders,
  templates,
  listOrder,
  timeZones,
  booksByHour,
  chargedStarts,
  webhookBacklog,
  regionNames,
  bookedTimeIndex,
];

export async function openStore(options: {
  url?: string | undefined;
  file?: string | undefined;
  log: StoreLog;
  connectTimeoutMs?: number | undefined;
  /** For SQLite. */
  reserve?: SpaceReserve | undefined;
}): Promise<Store> {
  const { url, file, log, connectTimeoutMs, reserve } = options;
  if (url) {
    if (!/^postgres(ql)?:\/\//.test(url)) {
      throw new Error(
        'The database URL must begin with postgres:// or postgresql://. For SQLite, leave BERTH_DATABASE_URL unset.',
      );
    }
    const { openPostgres } = await import('./db/postgres.ts');
    return openPostgres({ url, migrations, log, connectTimeoutMs });
  }
  if (file) return openSqlite({ file, migrations, log, reserve });
  throw new Error('The store needs a postgres:// URL or the path of an SQLite file.');
}

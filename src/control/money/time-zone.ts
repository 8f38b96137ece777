/** Time zones of regions and accounts: of off-peak windows, else of the host. */
import { canonicalTimeZone } from '../../domain/kernel/calendar.ts';
import type { Db } from '../../store/store.ts';
import { offPeakOf } from '../../store/tables/catalog.ts';
import type { UseCaseDeps } from '../kernel/ports.ts';

const hostTimeZone = (): string => canonicalTimeZone(new Intl.DateTimeFormat().resolvedOptions().timeZone) ?? 'UTC';

export async function timeZoneOf(db: Db, regionId: string): Promise<string> {
  const row = await db.selectFrom('region').select(['id', 'offPeak']).where('id', '=', regionId).executeTakeFirst();
  return (row && offPeakOf(row)?.timeZone) ?? hostTimeZone();
}

/** Zone of the first region with off-peak windows, else of the host. */
export async function usualTimeZone(readCatalog: UseCaseDeps['readCatalog']): Promise<string> {
  const { regions } = await readCatalog();
  return [...regions.values()].find(({ offPeak }) => offPeak)?.offPeak?.timeZone ?? hostTimeZone();
}

/** Time zone of a region: that of its off-peak windows, else of the host. */
import { isTimeZone } from '../../domain/off-peak.ts';
import type { Db } from '../../store/store.ts';
import { offPeakOf } from '../../store/tables/catalog.ts';

export function hostTimeZone(): string {
  const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
  return isTimeZone(timeZone) ? timeZone : 'UTC';
}

export async function timeZoneOf(db: Db, regionId: string): Promise<string> {
  const row = await db.selectFrom('region').select(['id', 'offPeak']).where('id', '=', regionId).executeTakeFirst();
  return (row && offPeakOf(row)?.timeZone) ?? hostTimeZone();
}

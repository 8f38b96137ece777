/** Gives stored time zones their one name, as requests get it since. */
import { sql } from 'kysely';
import { canonicalTimeZone } from '../../domain/kernel/calendar.ts';
import { parseJson } from '../db/columns.ts';
import type { Migration } from '../db/migrate.ts';
import { offPeakSchema } from '../tables/json-schemas.ts';

const nameOf = (timeZone: string): string => canonicalTimeZone(timeZone) ?? timeZone;

export const timeZones: Migration = {
  name: '0033-time-zones',
  async up(db) {
    const budgets = await sql<{ timeZone: string }>`select distinct "timeZone" from budget`.execute(db);
    for (const { timeZone } of budgets.rows)
      await sql`update budget set "timeZone" = ${nameOf(timeZone)} where "timeZone" = ${timeZone}`.execute(db);
    const regions = await sql<{ id: string; offPeak: string }>`
      select id, "offPeak" from region where "offPeak" is not null`.execute(db);
    for (const { id, offPeak } of regions.rows) {
      const windows = parseJson(offPeakSchema, offPeak, { table: 'region', id, column: 'offPeak' });
      const text = JSON.stringify({ ...windows, timeZone: nameOf(windows.timeZone) });
      await sql`update region set "offPeak" = ${text} where id = ${id}`.execute(db);
    }
  },
};

/** Prices that an administrator set for a later time. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const scheduledPrices: Migration = {
  name: '0025-scheduled-prices',
  async up(db) {
    await sql`alter table "priceChange" add column "isScheduled" integer not null default 0`.execute(db);
    await sql`create unique index price_change_scheduled on "priceChange" ("fromMs", "regionId", "typeId")
      where "isScheduled" = 1`.execute(db);
  },
};

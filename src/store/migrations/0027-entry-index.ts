/** One index of entries by account instead of two: each booking wrote a page of both. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const entryIndex: Migration = {
  name: '0027-entry-index',
  async up(db) {
    await sql`drop index entry_time`.execute(db);
    await sql`drop index entry_sum`.execute(db);
    await sql`create index entry_account on entry
      ("accountId", "atMs", id, "periodId", "fromLedger", meter, "amountMicros")`.execute(db);
  },
};

/** Lets an index alone answer how much time of closed periods was booked. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const bookedTimeIndex: Migration = {
  name: '0048-booked-time-index',
  async up(db) {
    for (const index of ['closed', 'resource']) await sql`drop index ${sql.ref(`usage_period_${index}`)}`.execute(db);
    await sql`create index usage_period_closed on "usagePeriod" ("accountId", "closedAtMs", meter, state, "openedAtMs",
      quantity, "priceMicros", "chargedUntilMs", id) where "closedAtMs" is not null`.execute(db);
    await sql`create index usage_period_resource on "usagePeriod" ("accountId", "subjectId", meter, state,
      "closedAtMs", "openedAtMs", quantity, "priceMicros", "chargedUntilMs", id)
      where "closedAtMs" is not null`.execute(db);
  },
};

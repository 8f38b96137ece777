/**
 * Books that no later change alters: periods without free time inside, with labels from their
 * beginning, and the names of deleted accounts.
 */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

/** Columns that a period has in common with the gap before or after it. */
const same = sql.raw(`"accountId", "subjectId", "subjectName", meter, "regionId", "typeId", quantity, "unitMs",
  "openSeq", labels`);

export const booksByHour: Migration = {
  name: '0040-books-by-hour',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    // The place of earlier free time is not known: it is moved to the beginning of its period.
    await sql`insert into "usagePeriod" (${same}, state, "priceMicros", "openedAtMs", "closedAtMs",
        "chargedUntilMs", carry, "isCharging")
      select ${same}, 'gap', 0, "openedAtMs", "openedAtMs" + "freeMs", "openedAtMs" + "freeMs", 0, 0
      from "usagePeriod" where "freeMs" > 0`.execute(db);
    await sql`update "usagePeriod" set "openedAtMs" = "openedAtMs" + "freeMs" where "freeMs" <> 0`.execute(db);
    for (const index of ['closed', 'resource']) await sql`drop index ${sql.ref(`usage_period_${index}`)}`.execute(db);
    await sql`alter table "usagePeriod" drop column "freeMs"`.execute(db);
    await sql`create index usage_period_closed on "usagePeriod" ("accountId", "closedAtMs", meter, state, "openedAtMs",
      quantity, id) where "closedAtMs" is not null`.execute(db);
    await sql`create index usage_period_resource on "usagePeriod" ("accountId", "subjectId", meter, state,
      "closedAtMs", "openedAtMs", quantity, "priceMicros", id) where "closedAtMs" is not null`.execute(db);
    await sql`drop index entry_other`.execute(db);
    await sql`create index entry_other on entry ("accountId", "atMs") where kind <> 'charge'`.execute(db);
    await sql`update "usagePeriod" set labels = coalesce(
        (select labels from instance where instance.id = "subjectId"),
        (select labels from volume where volume.id = "subjectId"))
      where "closedAtMs" is null`.execute(db);
    await sql`update "usagePeriod" set "typeId" = coalesce((select type from volume where volume.id = "subjectId"), '')
      where meter = 'volume'`.execute(db);
    await sql`alter table entry add column "priceMicros" bigint`.execute(db);
    await sql`alter table entry add column "priceUnit" ${text}`.execute(db);
    await sql`create table "formerAccount" (
      id ${text} not null primary key, username ${text} not null, "deletedAtMs" bigint not null
    )`.execute(db);
  },
};

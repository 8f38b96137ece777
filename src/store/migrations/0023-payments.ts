/** Payments, and indexes of statements. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const payments: Migration = {
  name: '0023-payments',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`create table payment (
      id ${text} not null primary key, "intentId" ${text} not null, provider ${text} not null,
      "accountId" ${text} not null, "amountMicros" bigint not null, currency ${text} not null,
      "entryId" bigint, "atMs" bigint not null
    )`.execute(db);
    await sql`create unique index payment_intent on payment (provider, "intentId") where "intentId" <> ''`.execute(db);
    await sql`create table "paymentRefund" (
      provider ${text} not null, "intentId" ${text} not null, "askedMicros" bigint not null,
      "takenMicros" bigint not null, primary key (provider, "intentId")
    )`.execute(db);
    await sql`alter table "usagePeriod" add column labels ${text}`.execute(db);
    await sql`drop index entry_time`.execute(db);
    await sql`create index entry_time on entry ("accountId", "atMs")`.execute(db);
    await sql`create index entry_sum on entry
      ("accountId", "fromLedger", meter, "atMs", "amountMicros") where "periodId" is not null`.execute(db);
    await sql`create index entry_other on entry ("accountId", "atMs") where "periodId" is null`.execute(db);
    await sql`create index usage_period_current on "usagePeriod" ("accountId", id) where "closedAtMs" is null`.execute(
      db,
    );
    await sql`create index usage_period_closed on "usagePeriod"
      ("accountId", meter, state, "closedAtMs", "openedAtMs", "freeMs") where "closedAtMs" is not null`.execute(db);
    await sql`create index usage_period_resource on "usagePeriod" ("accountId", "subjectId", meter, state,
      "closedAtMs", "openedAtMs", quantity, "chargedMicros", "freeMs", id) where "closedAtMs" is not null`.execute(db);
  },
};

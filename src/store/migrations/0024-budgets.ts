/** Budgets, and the steps of accounts whose money ends. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const budgets: Migration = {
  name: '0024-budgets',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`alter table account add column "moneyStep" ${text} not null default 'none'`.execute(db);
    for (const name of ['moneyArchiveAtMs', 'moneyDeleteAtMs', 'moneyDeleteWarnedAtMs'])
      await sql`alter table account add column ${sql.ref(name)} bigint`.execute(db);
    await sql`create index account_money_step on account ("moneyStep", id) where "moneyStep" <> 'none'`.execute(db);
    await sql`create table budget (
      id ${text} not null primary key, "accountId" ${text} not null, name ${text} not null,
      "labelKey" ${text} not null, "labelValue" ${text} not null, "timeZone" ${text} not null,
      "softMicros" bigint, "hardMicros" bigint, "byAdministrator" integer not null, "createdAtMs" bigint not null,
      month ${text} not null, "settledUntilMs" bigint not null, "settledMicros" bigint not null,
      "softReached" integer not null, "hardReached" integer not null
    )`.execute(db);
    await sql`create unique index budget_name on budget ("accountId", name)`.execute(db);
    await sql`create index budget_reached on budget ("accountId") where "hardReached" = 1`.execute(db);
  },
};

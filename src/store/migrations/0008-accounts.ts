/** States of accounts, addresses of logins, and links that set a password. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const accounts: Migration = {
  name: '0008-accounts',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`alter table account add column "disabledAtMs" bigint`.execute(db);
    await sql`alter table account add column "disabledReason" ${text} not null default ''`.execute(db);
    await sql`alter table account add column "deleteAtMs" bigint`.execute(db);
    await sql`create index account_disabled on account (id) where disabled = 1`.execute(db);
    await sql`create index account_list on account ("createdAtMs" desc, id desc)`.execute(db);
    await sql`alter table session add column address ${text} not null default ''`.execute(db);
    await sql`alter table session add column "userAgent" ${text} not null default ''`.execute(db);
    await sql`alter table session add column "lastUsedAtMs" bigint not null default 0`.execute(db);
    await sql`create table "passwordLink" (
      hash ${text} primary key not null, "accountId" ${text} not null references account (id) on delete cascade,
      kind ${text} not null, "expiresAtMs" bigint not null)`.execute(db);
    await sql`create index "passwordLink_account" on "passwordLink" ("accountId")`.execute(db);
  },
};

/** Limits of accounts, and what each uses: null until it is counted from the account's rows. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const quotas: Migration = {
  name: '0011-quotas',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`create table quota (
      "accountId" ${text} not null, name ${text} not null, value bigint not null,
      primary key ("accountId", name))`.execute(db);
    await sql`alter table account add column usage ${text}`.execute(db);
    await sql`create index "portShare_account" on "portShare" ("accountId", "expiresAtMs")`.execute(db);
  },
};

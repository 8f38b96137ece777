/** Identities of login providers, each with its account. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const identities: Migration = {
  name: '0016-identities',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`create table identity (
      issuer ${text} not null, subject ${text} not null,
      "accountId" ${text} not null references account (id) on delete cascade,
      "createdAtMs" bigint not null, primary key (issuer, subject)
    )`.execute(db);
    await sql`create index identity_account on identity ("accountId")`.execute(db);
  },
};

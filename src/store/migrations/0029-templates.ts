/** Launches that accounts keep under a name. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const templates: Migration = {
  name: '0029-templates',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`create table template (
      "accountId" ${text} not null, name ${text} not null, sealed ${text} not null, "updatedAtMs" bigint not null,
      primary key ("accountId", name)
    )`.execute(db);
  },
};

/** Environment variables of the installation, of accounts and of instances. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const variables: Migration = {
  name: '0005-variables',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`create table variable (
      "holderId" ${text} not null, name ${text} not null, "isSecret" smallint not null, sealed ${text} not null,
      "updatedAtMs" bigint not null, primary key ("holderId", name)
    )`.execute(db);
  },
};

/** Keeps the former names of a region: reports of past hours show them. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';
import { isSqlite } from '../db/dialect.ts';

export const regionNames: Migration = {
  name: '0047-region-names',
  async up(db) {
    const text = sql.raw(isSqlite(db) ? 'text' : 'text collate "C"');
    await sql`alter table region add column "formerNames" ${text} not null default '[]'`.execute(db);
  },
};

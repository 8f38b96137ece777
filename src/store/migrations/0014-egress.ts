/** Egress policies of regions and accounts. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const egress: Migration = {
  name: '0014-egress',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`create table egress ("holderId" ${text} not null primary key, policy ${text} not null)`.execute(db);
  },
};

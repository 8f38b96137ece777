/** The container runtime of an instance type. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const runtimes: Migration = {
  name: '0003-runtimes',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`alter table ${sql.ref('instanceType')} add column runtime ${text}`.execute(db);
  },
};

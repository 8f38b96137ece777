/** Drain of regions, and the order of the operators' lists. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const drain: Migration = {
  name: '0012-drain',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`alter table region add column drain ${text}`.execute(db);
    for (const table of ['instance', 'volume'])
      await sql`create index ${sql.ref(`${table}_newest`)} on ${sql.ref(table)}
        ("createdAtMs" desc, id desc) where listed = 1`.execute(db);
  },
};

/**
 * Columns by which lists are sorted, in the indexes of the lists: a page of a sorted list reads
 * these, and the large rows of the page alone. Those that change with each measurement stay out.
 */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const listOrder: Migration = {
  name: '0030-list-order',
  async up(db) {
    for (const [table, columns] of [
      ['instance', sql`"searchName", "priceMicros"`],
      ['volume', sql`"searchName", "sizeGB"`],
    ] as const) {
      const list = sql.ref(`${table}_list`);
      const newest = sql.ref(`${table}_newest`);
      const status = table === 'instance' ? sql`status, ` : sql``;
      await sql`drop index ${list}`.execute(db);
      await sql`drop index ${newest}`.execute(db);
      await sql`create index ${list} on ${sql.ref(table)}
        ("ownerId", listed, "createdAtMs" desc, id desc, ${status}${columns})`.execute(db);
      await sql`create index ${newest} on ${sql.ref(table)}
        ("createdAtMs" desc, id desc, ${columns}) where listed = 1`.execute(db);
    }
  },
};

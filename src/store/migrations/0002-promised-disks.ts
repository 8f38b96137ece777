/** Disks are promised or best effort. Earlier disks had all of their size promised. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const promisedDisks: Migration = {
  name: '0002-promised-disks',
  async up(db) {
    for (const [table, column] of [
      ['disk', 'promisedGB'],
      ['disk', 'bestEffortGB'],
      ['pool', 'bestEffortGB'],
    ] as const)
      await db.schema
        .alterTable(table)
        .addColumn(column, 'bigint', (made) => made.notNull().defaultTo(0))
        .execute();
    await sql`update disk set "promisedGB" = "sizeGB"`.execute(db);
    await sql`create index disk_owner on disk ("ownerId") where "promisedGB" > 0`.execute(db);
  },
};

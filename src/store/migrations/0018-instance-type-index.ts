/** Leaves the region out: by that index, each page of a region's instances was sorted. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const instanceTypeIndex: Migration = {
  name: '0018-instance-type-index',
  async up(db) {
    await sql`drop index instance_type`.execute(db);
    await sql`create index instance_type on instance ("typeId")`.execute(db);
  },
};

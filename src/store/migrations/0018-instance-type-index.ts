/** Without the region: pages of a region's instances, read in order of id, were sorted by that index. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const instanceTypeIndex: Migration = {
  name: '0018-instance-type-index',
  async up(db) {
    await sql`drop index instance_type`.execute(db);
    await sql`create index instance_type on instance ("typeId")`.execute(db);
  },
};

/** Pages of a region's disks are read in order, instead of sorting all rows for each page. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const disksByRegion: Migration = {
  name: '0004-disks-by-region',
  async up(db) {
    await sql`drop index disk_pool`.execute(db);
    await sql`create index disk_region on disk ("regionId", id)`.execute(db);
  },
};

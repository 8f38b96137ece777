/** Finds who holds the capacity of a region among all former instances. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const capacityHolders: Migration = {
  name: '0028-capacity-holders',
  async up(db) {
    await sql`create index instance_holders on instance ("regionId", id) where "holdsCapacity" = 1`.execute(db);
  },
};

/** Runs are charged from the start of their containers, and paid time begins with one. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const chargedStarts: Migration = {
  name: '0043-charged-starts',
  async up(db) {
    await sql`alter table "paidTime" add column "runSeq" bigint`.execute(db);
    // The next look at a container that is getting ready opens the period of its run.
    await sql`update instance set observed = replace(observed, '"phase":"WaitReady"', '"phase":"CreateContainer"')
      where desired = 'running' and status <> 'Running'`.execute(db);
  },
};

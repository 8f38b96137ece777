/** Regions that administrators add and retire. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const regions: Migration = {
  name: '0026-regions',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`alter table region add column settings ${text}`.execute(db);
    await sql`alter table region add column credentials ${text}`.execute(db);
    await sql`alter table region add column "inCatalog" integer not null default 1`.execute(db);
  },
};

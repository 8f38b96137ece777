/** Waits for off-peak windows, announced stops, and starts after an automatic stop. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const notices: Migration = {
  name: '0021-notices',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    for (const column of ['notBeforeMs', 'windowEndsAtMs', 'reclaimAtMs'])
      await sql`alter table instance add column ${sql.ref(column)} bigint`.execute(db);
    for (const column of ['tideRegionId', 'spotRegionId', 'resumesAfter'])
      await sql`alter table instance add column ${sql.ref(column)} ${text}`.execute(db);
    await sql`update instance set "tideRegionId" = "regionId"
      where desired = 'running' and spec like '%"chargeMode":"tidePerHour"%'`.execute(db);
    await sql`update instance set "spotRegionId" = "regionId"
      where desired <> 'released' and spec like '%"isSpot":true%'`.execute(db);
    await sql`create index instance_tide on instance ("tideRegionId", "notBeforeMs", id)
      where "tideRegionId" is not null`.execute(db);
    await sql`create index instance_spot on instance ("spotRegionId", "holdsCapacity")
      where "spotRegionId" is not null`.execute(db);
    await sql`create index instance_reclaim on instance ("reclaimAtMs", id)
      where "reclaimAtMs" is not null and desired = 'running'`.execute(db);
    await sql`create index instance_resume on instance ("resumesAfter", "regionId", id)
      where "resumesAfter" is not null`.execute(db);
  },
};

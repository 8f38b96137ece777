/**
 * Pools and the disks that lie in them, snapshots, and what instances' disks hold. Every disk of before lies in the pool `default`; what of
 * it is promised is summed up here, and how much may be is said when the server starts.
 */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const poolsAndDisks: Migration = {
  name: '0003-pools-and-disks',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql.raw('text') : sql.raw('text collate "C"');
    const number = kind === 'sqlite' ? sql.raw('integer') : sql.raw('bigint');
    /** A whole number inside the JSON of an instance's `spec`. */
    const inSpec = (...path: string[]) =>
      kind === 'sqlite'
        ? sql`json_extract(spec, ${sql.lit(`$.${path.join('.')}`)})`
        : sql`cast(cast(spec as json) #>> ${sql.lit(`{${path.join(',')}}`)} as bigint)`;

    await sql`create table pool (
      id ${text} primary key, "regionId" ${text} not null, name ${text} not null, "limitGB" ${number} not null,
      "usedGB" ${number} not null default 0, warned smallint not null default 0)`.execute(db);
    await sql`create table disk (
      id ${text} primary key, kind ${text} not null, "subjectId" ${text} not null, "regionId" ${text} not null, pool ${text} not null,
      "ownerId" ${text} not null, "sizeGB" ${number} not null, made smallint not null default 0, "usageBytes" ${number} not null default 0,
      "warnedPercent" ${number} not null default 0)`.execute(db);
    await sql`create index "disk_pool" on disk ("regionId", pool)`.execute(db);

    await sql`create table snapshot (
      id ${text} primary key, "ownerId" ${text} not null, "ownerName" ${text} not null, "createdAtMs" ${number} not null,
      name ${text} not null, "liveName" ${text}, "regionId" ${text} not null, "volumeId" ${text} not null, "volumeName" ${text} not null,
      "volumeType" ${text} not null, "sizeGB" ${number} not null, consistency ${text} not null, status ${text} not null,
      generation ${number} not null, operation ${text} not null, "publicText" ${text} not null, listed smallint not null, "dueAtMs" ${number},
      "leaseOwner" ${text}, "leaseToken" ${text}, "leaseUntilMs" ${number})`.execute(db);
    await sql`create unique index "snapshot_live_name" on snapshot ("liveName")`.execute(db);
    await sql`create index "snapshot_list" on snapshot ("ownerId", "createdAtMs", id) where listed = 1`.execute(db);
    await sql`create index "snapshot_volume" on snapshot ("volumeId")`.execute(db);
    await sql`create index "snapshot_due" on snapshot ("dueAtMs", id) where "dueAtMs" is not null`.execute(db);
    await sql`create index "snapshot_lease" on snapshot ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null`.execute(
      db,
    );

    await sql`alter table volume add column source ${text}`.execute(db);
    await sql`create index "volume_source" on volume (source) where source is not null`.execute(db);
    await sql`alter table instance add column "diskUsage" ${text} not null default '{"rootBytes":0,"dataBytes":0,"dockerBytes":0,"rootWarnedPercent":0,"full":[]}'`.execute(
      db,
    );

    const columns = sql`id, kind, "subjectId", "regionId", pool, "ownerId", "sizeGB", "usageBytes"`;
    await sql`insert into disk (${columns})
      select 'volume/' || id, 'volume', id, "regionId", 'default', "ownerId", "sizeGB", "usageBytes" from volume`.execute(
      db,
    );
    const dataGB = sql`${inSpec('type', 'dataDiskGB')} + ${inSpec('extraDataDiskGB')}`;
    await sql`insert into disk (${columns})
      select 'data/' || id, 'data', id, "regionId", 'default', "ownerId", ${dataGB}, 0 from instance
      where observed not like '%"phase":"Cleaned"%'`.execute(db);
    await sql`insert into disk (${columns})
      select 'shared/' || "ownerId" || '/' || "regionId", 'shared', "ownerId" || '/' || "regionId", "regionId", 'default',
        "ownerId", max(${inSpec('type', 'dataDiskGB')}), 0 from instance group by "ownerId", "regionId"`.execute(db);
    await sql`insert into pool (id, "regionId", name, "limitGB", "usedGB")
      select "regionId" || '/default', "regionId", 'default', 0, sum("sizeGB") from disk group by "regionId"`.execute(
      db,
    );
  },
};

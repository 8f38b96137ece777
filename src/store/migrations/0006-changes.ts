/** Changes of a launched instance. A mount path may have one volume now and another later. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const changes: Migration = {
  name: '0006-changes',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`alter table instance add column revision bigint not null default 0`.execute(db);
    await sql`alter table instance add column pending ${text}`.execute(db);
    await sql`alter table instance add column ${sql.ref('oldContainer')} ${text}`.execute(db);
    await sql`create table mounts (
      "mountPath" ${text} not null, "instanceId" ${text} not null references instance (id) on delete cascade,
      "volumeId" ${text} not null references volume (id) on delete cascade,
      primary key ("instanceId", "mountPath", "volumeId"))`.execute(db);
    await sql`insert into mounts select "mountPath", "instanceId", "volumeId" from mount`.execute(db);
    await sql`drop table mount`.execute(db);
    await sql`alter table mounts rename to mount`.execute(db);
    await sql`create index mount_volume on mount ("volumeId")`.execute(db);
  },
};

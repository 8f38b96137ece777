/** The catalog as data of administrators: versions of rows, off-peak windows, and who uses what. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const catalog: Migration = {
  name: '0010-catalog',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    for (const table of ['instanceType', 'image', 'region'])
      await sql`alter table ${sql.ref(table)} add column version bigint not null default 1`.execute(db);
    await sql`alter table region add column "ownDomain" ${text}`.execute(db);
    await sql`alter table region add column "offPeak" ${text}`.execute(db);
    await sql`create unique index "instanceType_name" on "instanceType" ("regionId", name)`.execute(db);
    await sql`create unique index region_name on region (name)`.execute(db);
    await sql`create unique index region_value on region (value)`.execute(db);
    for (const [column, member] of [
      ['typeId', 'type'],
      ['imageId', 'image'],
    ] as const) {
      const id =
        kind === 'sqlite'
          ? sql`json_extract(spec, ${sql.lit(`$.${member}.id`)})`
          : sql`spec::json -> ${sql.lit(member)} ->> 'id'`;
      await sql`alter table instance add column ${sql.ref(column)} ${text} not null default ''`.execute(db);
      await sql`update instance set ${sql.ref(column)} = coalesce(${id}, '')`.execute(db);
    }
    await sql`create index instance_type on instance ("regionId", "typeId")`.execute(db);
    await sql`create index instance_image on instance ("imageId")`.execute(db);
  },
};

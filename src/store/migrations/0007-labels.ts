/** Labels of instances and volumes, and names in the form that filters of lists search. */
import { sql } from 'kysely';
import { searchForm } from '../../domain/kernel/resource-labels.ts';
import type { Migration } from '../db/migrate.ts';

interface Named {
  id: string;
  name: string;
}

export const labels: Migration = {
  name: '0007-labels',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    for (const table of ['instance', 'volume']) {
      await sql`alter table ${sql.ref(table)} add column labels ${text}`.execute(db);
      await sql`alter table ${sql.ref(table)} add column "searchName" ${text} not null default ''`.execute(db);
    }
    await sql`create table label (
      "subjectId" ${text} not null, key ${text} not null, value ${text} not null, "ownerId" ${text} not null,
      primary key ("subjectId", key))`.execute(db);
    await sql`create index label_find on label ("ownerId", key, value, "subjectId")`.execute(db);
    const name = kind === 'sqlite' ? sql`json_extract(spec, '$.name')` : sql`spec::json ->> 'name'`;
    const instances = await sql<Named>`select id, ${name} as name from instance where listed = 1`.execute(db);
    const volumes = await sql<Named>`select id, name from volume where listed = 1`.execute(db);
    for (const [table, { rows }] of [
      ['instance', instances],
      ['volume', volumes],
    ] as const)
      for (const row of rows)
        await sql`update ${sql.ref(table)} set "searchName" = ${searchForm(row.name)} where id = ${row.id}`.execute(db);
    // Filters read the index alone until a row matches: rows of instances are large.
    await sql`drop index instance_list`.execute(db);
    await sql`create index instance_list on instance
      ("ownerId", listed, "createdAtMs" desc, id desc, status, "searchName")`.execute(db);
  },
};

/**
 * What ends an instance by itself, its place in line for capacity, its archive and its present operation; the history of operations;
 * images of accounts and the registry credentials they are had with; engine objects of ours that nobody wished.
 */
import { sql } from 'kysely';
import type { CreateTableBuilder } from 'kysely';
import type { Migration } from '../migrate.ts';

type Table = CreateTableBuilder<string, string>;

const NO_ENDS = '{"stopAtMs":null,"maxRunMs":null,"idle":null,"keepAliveUntilMs":0}';
const PAST_LAUNCH = '{"kind":"launch","cause":"user","startedAtMs":0,"endedAtMs":0,"state":"Succeeded","stages":[],"error":null}';
const PAST_CREATE = PAST_LAUNCH.replace('launch', 'createVolume');

export const endsAndOperations: Migration = {
  name: '0002-ends-and-operations',
  async up(db, kind) {
    const text = kind === 'postgres' ? sql`text collate "C"` : sql`text`;
    const addText = async (table: string, name: string, value: string | null): Promise<void> => {
      await db.schema
        .alterTable(table)
        .addColumn(name, text, (c) => (value === null ? c : c.notNull().defaultTo(value)))
        .execute();
    };
    const addWhole = async (table: string, name: string, value: number | null): Promise<void> => {
      await db.schema
        .alterTable(table)
        .addColumn(name, 'bigint', (c) => (value === null ? c : c.notNull().defaultTo(value)))
        .execute();
    };
    const texts = (table: Table, ...names: string[]): Table =>
      names.reduce((t, name) => t.addColumn(name, text, (c) => c.notNull()), table);
    const whole = (table: Table, ...names: string[]): Table =>
      names.reduce((t, name) => t.addColumn(name, 'bigint', (c) => c.notNull()), table);
    const withId = (name: string): Table =>
      db.schema.createTable(name).addColumn('id', text, (c) => c.primaryKey().notNull());

    await addText('instance', 'ends', NO_ENDS);
    await addText('instance', 'operation', PAST_LAUNCH);
    await addText('volume', 'operation', PAST_CREATE);
    await addText('image', 'operation', null);
    await addText('instance', 'archive', null);
    for (const name of ['waitsSinceMs', 'waitsUntilMs', 'endsAtMs', 'idleAfterMs']) await addWhole('instance', name, null);
    await sql`create index "instance_waiting" on instance ("regionId", "waitsSinceMs", id) where "waitsSinceMs" is not null`.execute(
      db,
    );
    await sql`create index "instance_ends" on instance ("endsAtMs") where "endsAtMs" is not null`.execute(db);
    await sql`create index "instance_idle" on instance (id) where "idleAfterMs" is not null`.execute(db);

    await addText('image', 'ownerId', null);
    await addText('image', 'state', 'Ready');
    await addText('image', 'stateText', '');
    for (const name of ['fromInstanceId', 'regionId', 'leaseOwner', 'leaseToken'])
      await addText('image', name, null);
    for (const name of ['sizeBytes', 'attempts']) await addWhole('image', name, 0);
    await addWhole('image', 'generation', 1);
    for (const name of ['dueAtMs', 'leaseUntilMs']) await addWhole('image', name, null);
    await sql`create index "image_owner" on image ("ownerId") where "ownerId" is not null`.execute(db);
    await sql`create index "image_due" on image ("dueAtMs", id) where "dueAtMs" is not null`.execute(db);

    await whole(
      texts(withId('registryCredential'), 'accountId', 'server', 'username', 'secret'),
      'createdAtMs',
    ).execute();
    await sql`create unique index "registryCredential_server" on "registryCredential" ("accountId", server)`.execute(
      db,
    );

    let table = texts(withId('operation'), 'accountId', 'subjectId', 'kind', 'operation');
    await whole(table, 'generation', 'keptSinceMs').execute();
    await sql`create index "operation_subject" on operation ("subjectId", generation)`.execute(db);
    await sql`create index "operation_kept" on operation ("keptSinceMs")`.execute(db);

    table = texts(
      withId('stray'),
      'regionId',
      'kind',
      'engineName',
      'subjectId',
      'ownerId',
      'imageRef',
      'handling',
      'note',
    );
    table = whole(table, 'generation', 'createdAtMs', 'firstSeenAtMs', 'lastSeenAtMs', 'watchedMs');
    await table.addColumn('running', 'smallint', (c) => c.notNull()).execute();
  },
};

/**
 * What ends an instance by itself, its place in line for capacity, its archive and its present operation; the history of operations;
 * images of accounts and the registry credentials they are had with; engine objects of ours that nobody wished.
 */
import { sql } from 'kysely';
import type { CreateTableBuilder, RawBuilder } from 'kysely';
import type { Migration } from '../db/migrate.ts';

type Table = CreateTableBuilder<string, string>;

const NO_ENDS = '{"stopAtMs":null,"maxRunMs":null,"idle":null,"keepAliveUntilMs":0}';
/** Only until the rows have their own, a few statements later; a column that is never null needs one. */
const NO_OPERATION = '{}';

/**
 * The operation of a row of before, as far as the row tells it. One under way is in one stage, from which passes carry it on; of one
 * that has ended the stages are not known, nor when, so it ends when it was wished. Which wish brought an instance up is not known
 * either: the first is the launch, any other is taken for a start.
 */
interface Told {
  kind: RawBuilder<string>;
  atMs: RawBuilder<unknown>;
  isUnderWay: RawBuilder<unknown>;
  stage: RawBuilder<string>;
  failed?: { when: RawBuilder<unknown>; error: RawBuilder<string> };
}

const operationOf = ({ kind, atMs, isUnderWay, stage, failed }: Told): RawBuilder<string> => {
  const state = failed
    ? sql`case when ${failed.when} then 'Failed' when ${isUnderWay} then 'Running' else 'Succeeded' end`
    : sql`case when ${isUnderWay} then 'Running' else 'Succeeded' end`;
  const error = failed ? sql`case when ${failed.when} then ${failed.error} else 'null' end` : sql`'null'`;
  const at = sql`cast(${atMs} as text)`;
  return sql`'{"kind":"' || ${kind} || '","cause":"user","startedAtMs":' || ${at}
    || ',"endedAtMs":' || case when ${isUnderWay} then 'null' else ${at} end
    || ',"state":"' || ${state} || '","stages":['
    || case when ${isUnderWay} then '{"name":"' || ${stage} || '","startedAtMs":' || ${at} || ',"endedAtMs":null,"progress":null}' else '' end
    || '],"error":' || ${error} || '}'`;
};

const HAS_FAILED = sql`status in ('StartingFailed', 'InitializationFailed')`;
/** Inside a text of JSON each quotation mark has a backslash before it, so this is the member and no message that quotes it. */
const IS_CLEANED = sql`observed like '%"phase":"Cleaned"%'`;

function instanceOperation(kind: 'sqlite' | 'postgres'): RawBuilder<string> {
  const quoted = (name: string): RawBuilder<string> =>
    kind === 'sqlite'
      ? sql`json_quote(json_extract(observed, ${sql.lit(`$.${name}`)}))`
      : sql`cast(cast(observed as json) -> ${sql.lit(name)} as text)`;
  return operationOf({
    kind: sql`case
      when desired = 'released' then 'terminate'
      when desired = 'stopped' and not ${HAS_FAILED} then 'stop'
      when status = 'Restarting' then 'restart'
      when generation = 1 then 'launch'
      else 'start' end`,
    atMs: sql`"requestedAtMs"`,
    isUnderWay: sql`(case desired
      when 'released' then not ${IS_CLEANED}
      when 'stopped' then status <> 'Stopped' and not ${HAS_FAILED}
      else status <> 'Running' end)`,
    // Whoever is to run had its place: there was no line.
    stage: sql`case
      when desired = 'released' then 'Clean'
      when desired = 'stopped' or status = 'Restarting' then 'Stop'
      else 'Placed' end`,
    failed: {
      when: sql`(desired = 'stopped' and ${HAS_FAILED})`,
      error: sql`'{"reason":' || ${quoted('diagnosis')} || ',"message":' || ${quoted('diagnosisMessage')}
        || ',"whatToDo":"Start it again; if it fails again, ask the operator to look at its log."}'`,
    },
  });
}

const volumeOperation = operationOf({
  kind: sql`case when status = 'Terminating' then 'deleteVolume' else 'createVolume' end`,
  atMs: sql`"createdAtMs"`,
  isUnderWay: sql`status in ('Pending', 'Terminating')`,
  stage: sql`case when status = 'Terminating' then 'Clean' else 'Disks' end`,
});

/**
 * The last member of the text, as the rules of this change have it (`legalActions`): a list that is asked for while the texts are
 * still being written anew keeps the contract.
 */
const ACTIONS = sql<string>`case
  when desired = 'released' then '[]'
  when desired = 'running' and status = 'Running' then '["stop","restart","archive","terminate"]'
  when desired = 'running' then '["stop","terminate"]'
  when status = 'Running' then '["archive","terminate"]'
  when status in ('Stopped', 'StartingFailed') then '["start","archive","terminate"]'
  when status = 'InitializationFailed' then '["start","terminate"]'
  else '["terminate"]' end`;

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
    await addText('instance', 'operation', NO_OPERATION);
    await addText('volume', 'operation', NO_OPERATION);
    await sql`update instance set operation = ${instanceOperation(kind)},
      "publicText" = substr("publicText", 1, length("publicText") - 1) || ',"actions":' || ${ACTIONS} || '}'`.execute(
      db,
    );
    await sql`update volume set operation = ${volumeOperation}`.execute(db);
    await addText('image', 'operation', null);
    await addText('instance', 'archive', null);
    await addText('instance', 'unfinished', '[]');
    for (const name of ['waitsSinceMs', 'waitsUntilMs', 'endsAtMs', 'idleAfterMs'])
      await addWhole('instance', name, null);
    await sql`create index "instance_waiting" on instance ("regionId", "waitsSinceMs", id) where "waitsSinceMs" is not null`.execute(
      db,
    );
    await sql`create index "instance_ends" on instance ("endsAtMs", id) where "endsAtMs" is not null`.execute(db);
    await sql`create index "instance_idle" on instance (id) where "idleAfterMs" is not null`.execute(db);

    await addText('image', 'ownerId', null);
    await addText('image', 'state', 'Ready');
    await addText('image', 'stateText', '');
    for (const name of ['fromInstanceId', 'regionId', 'leaseOwner', 'leaseToken']) await addText('image', name, null);
    for (const name of ['sizeBytes', 'attempts']) await addWhole('image', name, 0);
    await addWhole('image', 'generation', 1);
    for (const name of ['dueAtMs', 'leaseUntilMs']) await addWhole('image', name, null);
    await sql`create index "image_owner" on image ("ownerId") where "ownerId" is not null`.execute(db);
    await sql`create index "image_due" on image ("dueAtMs", id) where "dueAtMs" is not null`.execute(db);
    await sql`create index "image_lease" on image ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null`.execute(
      db,
    );
    await sql`create index "image_ref" on image (ref)`.execute(db);
    await sql`create index "image_from" on image ("fromInstanceId") where "fromInstanceId" is not null`.execute(db);

    await whole(
      texts(withId('registryCredential'), 'accountId', 'server', 'username', 'secret'),
      'createdAtMs',
    ).execute();
    await sql`create unique index "registryCredential_server" on "registryCredential" ("accountId", server)`.execute(
      db,
    );

    let table = texts(withId('operation'), 'accountId', 'subjectId', 'kind', 'operation');
    await whole(table, 'generation', 'archivedAtMs').execute();
    await sql`create index "operation_subject" on operation ("subjectId", generation)`.execute(db);
    await sql`create index "operation_kept" on operation ("archivedAtMs")`.execute(db);

    table = texts(
      withId('orphan'),
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

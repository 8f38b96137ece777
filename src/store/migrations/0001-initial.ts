/**
 * The tables of `schema.ts` with their indexes, in SQL of SQLite; `forPostgres` translates it.
 *
 * Indexes of pending work are partial, so rows at rest cost nothing. `=`, `<=` or `is not null` on
 * the column implies their conditions. SQLite does not look into parameters (`listed = ?` would not
 * use an index `where listed = 1`): `listed` is a column of the list's index.
 *
 * Foreign keys guard against a missing parent and delete children with their parent. Append-only
 * records (event, idempotency) have none: they outlive their subject.
 */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

const tables = `
create table setting (
  name text not null, value text not null, primary key (name)
) without rowid;

create table "signingKey" (
  kid text primary key not null, "privateJwk" text not null, "publicJwk" text not null,
  "createdAtMs" bigint not null, "retiredAtMs" bigint
);

create table account (
  id text primary key not null, username text not null, email text not null, "passwordHash" text not null,
  roles text not null, "createdAtMs" bigint not null, disabled smallint not null,
  version bigint not null default 0, "eventSeq" bigint not null default 0,
  "instanceCount" bigint not null default 0, "volumeCount" bigint not null default 0,
  "balanceMicros" bigint not null default 0, "voucherMicros" bigint not null default 0,
  "creditMicros" bigint not null default 0
);
create unique index account_username on account (username);
create unique index account_email on account (email) where email <> '';

create table session (
  id text primary key not null, "accountId" text not null references account (id) on delete cascade,
  "createdAtMs" bigint not null, "expiresAtMs" bigint not null, "revokedAtMs" bigint
);
create index session_account on session ("accountId");
create index session_expiry on session ("expiresAtMs");

create table "apiKey" (
  id text primary key not null, "accountId" text not null references account (id) on delete cascade,
  name text not null, hash text not null, "lastFour" text not null, "createdAtMs" bigint not null
);
create index "apiKey_account" on "apiKey" ("accountId");
create unique index "apiKey_hash" on "apiKey" (hash);

create table "sshKey" (
  id text primary key not null, "accountId" text not null references account (id) on delete cascade,
  name text not null, "publicKey" text not null, fingerprint text not null, "createdAtMs" bigint not null
);
create index "sshKey_account" on "sshKey" ("accountId");

create table "registryCredential" (
  id text primary key not null, "accountId" text not null, server text not null, username text not null,
  secret text not null, "createdAtMs" bigint not null
);
create unique index "registryCredential_server" on "registryCredential" ("accountId", server);

create table region (
  id text primary key not null, name text not null, value text not null, location text not null,
  domain text not null, "sshAddress" text not null, engine text not null, "cpuMilliTotal" bigint not null,
  "memoryMiBTotal" bigint not null, "gpusTotal" bigint not null, "nodePortsTotal" bigint not null,
  "cpuMilliUsed" bigint not null default 0, "memoryMiBUsed" bigint not null default 0,
  "gpusUsed" bigint not null default 0, "nodePortsUsed" bigint not null default 0
);

create table image (
  id text primary key not null, name text not null, ref text not null, architecture text not null,
  tags text not null, type text not null, "createdAtMs" bigint not null, "isPublic" smallint not null,
  "inCatalog" smallint not null, "ownerId" text, state text not null default 'Ready',
  "stateText" text not null default '', "fromInstanceId" text, "regionId" text,
  "sizeBytes" bigint not null default 0, attempts bigint not null default 0,
  generation bigint not null default 1, operation text, "dueAtMs" bigint, "leaseOwner" text, "leaseToken" text,
  "leaseUntilMs" bigint
);
create index image_due on image ("dueAtMs", id) where "dueAtMs" is not null;
create index image_lease on image ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index image_owner on image ("ownerId") where "ownerId" is not null;
create index image_ref on image (ref);
create index image_from on image ("fromInstanceId") where "fromInstanceId" is not null;

create table "instanceType" (
  id text primary key not null, "regionId" text not null references region (id), name text not null,
  "cpuType" text not null, "gpuName" text not null, prices text not null, "cpuCores" double precision not null,
  "memoryGB" double precision not null, "rootDiskGB" double precision not null,
  "dataDiskGB" double precision not null, "gpuCount" bigint not null, position bigint not null,
  "isSpot" smallint not null, "inCatalog" smallint not null
);

create table instance (
  id text primary key not null, "ownerId" text not null references account (id), "ownerName" text not null,
  "regionId" text not null references region (id), desired text not null, status text not null,
  "notebookToken" text not null, "createdAtMs" bigint not null, "priceMicros" bigint not null,
  generation bigint not null, attempts bigint not null, "requestedAtMs" bigint not null,
  "mustHalt" smallint not null, "everEnsured" smallint not null, "filesStale" smallint not null,
  "holdsCapacity" smallint not null, listed smallint not null, "initExit" bigint, "releasedAtMs" bigint,
  "waitsSinceMs" bigint, "waitsUntilMs" bigint, "stopDueAtMs" bigint, "idleAfterMs" bigint, "dueAtMs" bigint,
  "leaseOwner" text, "leaseToken" text, "leaseUntilMs" bigint, spec text not null, "nodePorts" text not null,
  observed text not null, "stopPolicy" text not null, "portAccess" text not null, unfinished text not null,
  "diskUsage" text not null, operation text not null, archive text, "publicText" text not null
);
create index instance_due on instance ("dueAtMs", id) where "dueAtMs" is not null;
create index instance_lease on instance ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index instance_list on instance ("ownerId", listed, "createdAtMs" desc, id desc);
create index instance_released on instance (listed, "releasedAtMs") where "releasedAtMs" is not null;
create index instance_waiting on instance ("regionId", "waitsSinceMs", id) where "waitsSinceMs" is not null;
create index instance_stop on instance ("stopDueAtMs", id) where "stopDueAtMs" is not null;
create index instance_idle on instance (id) where "idleAfterMs" is not null;

create table volume (
  id text primary key not null, "ownerId" text not null references account (id), "ownerName" text not null,
  "regionId" text not null references region (id), name text not null, type text not null,
  status text not null, "createdAtMs" bigint not null, "usageBytes" bigint not null,
  generation bigint not null, "sizeGB" double precision not null, listed smallint not null, "liveName" text,
  source text, "dueAtMs" bigint, "leaseOwner" text, "leaseToken" text, "leaseUntilMs" bigint,
  operation text not null, "publicText" text not null
);
create index volume_due on volume ("dueAtMs", id) where "dueAtMs" is not null;
create index volume_lease on volume ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index volume_list on volume ("ownerId", listed, "createdAtMs" desc, id desc);
create unique index "volume_liveName" on volume ("liveName");
create index volume_region on volume ("regionId");
create index volume_source on volume (source) where source is not null;

create table snapshot (
  id text primary key not null, "ownerId" text not null, "ownerName" text not null, "regionId" text not null,
  name text not null, "volumeId" text not null, "volumeName" text not null, "volumeType" text not null,
  consistency text not null, status text not null, "createdAtMs" bigint not null, "sizeGB" bigint not null,
  generation bigint not null, listed smallint not null, "liveName" text, "dueAtMs" bigint, "leaseOwner" text,
  "leaseToken" text, "leaseUntilMs" bigint, operation text not null, "publicText" text not null
);
create index snapshot_due on snapshot ("dueAtMs", id) where "dueAtMs" is not null;
create index snapshot_lease on snapshot ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index snapshot_list on snapshot ("ownerId", "createdAtMs", id) where listed = 1;
create unique index "snapshot_liveName" on snapshot ("liveName");
create index snapshot_volume on snapshot ("volumeId");

create table pool (
  id text primary key not null, "regionId" text not null, name text not null, "limitGB" bigint not null,
  "usedGB" bigint not null default 0, warned smallint not null default 0
);

create table disk (
  id text primary key not null, kind text not null, "subjectId" text not null, "regionId" text not null,
  pool text not null, "ownerId" text not null, "sizeGB" bigint not null,
  provisioned smallint not null default 0, "usageBytes" bigint not null default 0,
  "warnedPercent" bigint not null default 0
);
create index disk_pool on disk ("regionId", pool);

create table "nodePort" (
  "regionId" text not null references region (id), "nodePort" bigint not null, port bigint not null,
  "instanceId" text not null references instance (id) on delete cascade, primary key ("regionId", "nodePort")
) without rowid;
create unique index "nodePort_instance" on "nodePort" ("instanceId", port);

create table mount (
  "mountPath" text not null, "instanceId" text not null references instance (id) on delete cascade,
  "volumeId" text not null references volume (id) on delete cascade, primary key ("instanceId", "mountPath")
) without rowid;
create index mount_volume on mount ("volumeId");

create table idempotency (
  "accountId" text not null, key text not null, route text not null, "bodyHash" text not null,
  answer text not null, "createdAtMs" bigint not null, primary key ("accountId", key)
) without rowid;
create index idempotency_age on idempotency ("createdAtMs");

create table event (
  id integer primary key, "accountId" text not null, kind text not null, "subjectId" text not null,
  data text not null, seq bigint not null, "atMs" bigint not null
);
create unique index event_seq on event ("accountId", seq);

create table operation (
  id text primary key not null, "accountId" text not null, "subjectId" text not null, kind text not null,
  operation text not null, generation bigint not null, "archivedAtMs" bigint not null
);
create index operation_subject on operation ("subjectId", generation);
create index operation_archived on operation ("archivedAtMs");

create table orphan (
  id text primary key not null, "regionId" text not null, kind text not null, "engineName" text not null,
  "subjectId" text not null, "ownerId" text not null, "imageRef" text not null, handling text not null,
  note text not null, generation bigint not null, "createdAtMs" bigint not null,
  "firstSeenAtMs" bigint not null, "lastSeenAtMs" bigint not null, "watchedMs" bigint not null,
  running smallint not null
);

create table "gatewayGrant" (
  hash text primary key not null, id text not null, kind text not null, "accountId" text not null,
  "instanceId" text not null, "openedAtMs" bigint not null, "expiresAtMs" bigint not null,
  "sessionId" text references session (id) on delete cascade
);
create unique index "gatewayGrant_id" on "gatewayGrant" (id);
create index "gatewayGrant_session" on "gatewayGrant" ("sessionId");
create index "gatewayGrant_instance" on "gatewayGrant" ("instanceId");
create index "gatewayGrant_account" on "gatewayGrant" ("accountId");
create index "gatewayGrant_expiry" on "gatewayGrant" ("expiresAtMs");

create table "portShare" (
  id text primary key not null, hash text not null, "instanceId" text not null, "accountId" text not null,
  name text not null, port bigint not null, "createdAtMs" bigint not null, "expiresAtMs" bigint not null
);
create unique index "portShare_hash" on "portShare" (hash);
create index "portShare_instance" on "portShare" ("instanceId", "createdAtMs");
create index "portShare_expiry" on "portShare" ("expiresAtMs");

create table "metricMinute" (
  "atMs" bigint not null, part bigint not null, body blob not null, primary key ("atMs", part)
);

create table "metricHour" (
  "instanceId" text not null, "atMs" bigint not null, body blob not null, primary key ("instanceId", "atMs")
);
create index "metricHour_age" on "metricHour" ("atMs")
`;

/** PostgreSQL's text compares by bytes (`collate "C"`), as SQLite's does. */
const forPostgres = (statement: string): string =>
  statement
    .replaceAll(/\btext\b/g, 'text collate "C"')
    .replaceAll(/\bblob\b/g, 'bytea')
    .replace('integer primary key', 'bigint generated by default as identity primary key')
    .replace('without rowid', '');

export const initial: Migration = {
  name: '0001-initial',
  async up(db, kind) {
    for (const statement of tables.trim().split(';\n')) {
      await sql.raw(kind === 'sqlite' ? statement : forPostgres(statement)).execute(db);
    }
  },
};

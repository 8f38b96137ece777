-- The tables of `db/schema.ts` for PostgreSQL: those of 0001-schema.sqlite.sql, which says why each
-- index is there. Text compares by bytes (`collate "C"`), as SQLite's does.

create table setting (name text collate "C" not null, value text collate "C" not null, primary key (name));

create table "signingKey" (
  kid text collate "C" primary key not null, "privateJwk" text collate "C" not null,
  "publicJwk" text collate "C" not null, "createdAtMs" bigint not null, "retiredAtMs" bigint
);

create table account (
  id text collate "C" primary key not null, username text collate "C" not null, email text collate "C" not null,
  "passwordHash" text collate "C" not null, roles text collate "C" not null, "createdAtMs" bigint not null,
  disabled smallint not null, "disabledAtMs" bigint, "disabledReason" text collate "C" not null default '',
  "deleteAtMs" bigint, version bigint not null default 0, "eventSeq" bigint not null default 0,
  "instanceCount" bigint not null default 0, "volumeCount" bigint not null default 0,
  "balanceMicros" bigint not null default 0, "voucherMicros" bigint not null default 0,
  "creditMicros" bigint not null default 0, "overdraftMicros" bigint not null default 0,
  "moneyStep" text collate "C" not null default 'none', "moneyArchiveAtMs" bigint, "moneyDeleteAtMs" bigint,
  "moneyDeleteWarnedAtMs" bigint, usage text collate "C" not null default '{}'
);
create unique index account_username on account (username);
create unique index account_email on account (email) where email <> '';
create index account_disabled on account (id) where disabled = 1;
create index account_list on account ("createdAtMs" desc, id desc);
create index account_money_step on account ("moneyStep", id) where "moneyStep" <> 'none';

create table quota (
  "accountId" text collate "C" not null, name text collate "C" not null, value bigint not null,
  primary key ("accountId", name)
);

create table session (
  id text collate "C" primary key not null,
  "accountId" text collate "C" not null references account (id) on delete cascade, "createdAtMs" bigint not null,
  "expiresAtMs" bigint not null, "revokedAtMs" bigint, address text collate "C" not null default '',
  "userAgent" text collate "C" not null default '', "lastUsedAtMs" bigint not null default 0
);
create index session_account on session ("accountId");
create index session_expiry on session ("expiresAtMs");

create table "passwordLink" (
  hash text collate "C" primary key not null,
  "accountId" text collate "C" not null references account (id) on delete cascade, kind text collate "C" not null,
  "expiresAtMs" bigint not null
);
create index "passwordLink_account" on "passwordLink" ("accountId");

create table "apiKey" (
  id text collate "C" primary key not null,
  "accountId" text collate "C" not null references account (id) on delete cascade, name text collate "C" not null,
  hash text collate "C" not null, prefix text collate "C" not null default '', "lastFour" text collate "C" not null,
  scopes text collate "C", addresses text collate "C", "expiresAtMs" bigint, "lastUsedAtMs" bigint,
  "createdAtMs" bigint not null
);
create index "apiKey_account" on "apiKey" ("accountId");
create unique index "apiKey_hash" on "apiKey" (hash);

create table identity (
  issuer text collate "C" not null, subject text collate "C" not null,
  "accountId" text collate "C" not null references account (id) on delete cascade, "createdAtMs" bigint not null,
  primary key (issuer, subject)
);
create index identity_account on identity ("accountId");

create table "sshKey" (
  id text collate "C" primary key not null,
  "accountId" text collate "C" not null references account (id) on delete cascade, name text collate "C" not null,
  "publicKey" text collate "C" not null, kind text collate "C" not null default 'key',
  fingerprint text collate "C" not null, "createdAtMs" bigint not null
);
create index "sshKey_account" on "sshKey" ("accountId");

create table "registryCredential" (
  id text collate "C" primary key not null, "accountId" text collate "C" not null, server text collate "C" not null,
  username text collate "C" not null, secret text collate "C" not null, "createdAtMs" bigint not null
);
create unique index "registryCredential_server" on "registryCredential" ("accountId", server);

create table "gatewayGrant" (
  hash text collate "C" primary key not null, id text collate "C" not null, kind text collate "C" not null,
  "accountId" text collate "C" not null, "instanceId" text collate "C" not null, "openedAtMs" bigint not null,
  "expiresAtMs" bigint not null, "sessionId" text collate "C" references session (id) on delete cascade,
  "apiKeyId" text collate "C" references "apiKey" (id) on delete cascade
);
create unique index "gatewayGrant_id" on "gatewayGrant" (id);
create index "gatewayGrant_session" on "gatewayGrant" ("sessionId");
create index "gatewayGrant_apiKey" on "gatewayGrant" ("apiKeyId");
create index "gatewayGrant_instance" on "gatewayGrant" ("instanceId");
create index "gatewayGrant_account" on "gatewayGrant" ("accountId");
create index "gatewayGrant_expiry" on "gatewayGrant" ("expiresAtMs");

create table variable (
  "holderId" text collate "C" not null, name text collate "C" not null, "isSecret" smallint not null,
  sealed text collate "C" not null, "updatedAtMs" bigint not null, primary key ("holderId", name)
);

create table template (
  "accountId" text collate "C" not null, name text collate "C" not null, sealed text collate "C" not null,
  "updatedAtMs" bigint not null, primary key ("accountId", name)
);

create table region (
  id text collate "C" primary key not null, name text collate "C" not null, value text collate "C" not null,
  location text collate "C" not null, domain text collate "C" not null, "sshAddress" text collate "C" not null,
  engine text collate "C" not null, "cpuMilliTotal" bigint not null, "memoryMiBTotal" bigint not null,
  "gpusTotal" bigint not null, "nodePortsTotal" bigint not null, "cpuMilliUsed" bigint not null default 0,
  "memoryMiBUsed" bigint not null default 0, "gpusUsed" bigint not null default 0,
  "nodePortsUsed" bigint not null default 0, version bigint not null default 1,
  "inCatalog" integer not null default 1, "ownDomain" text collate "C", "offPeak" text collate "C",
  drain text collate "C", "storagePrices" text collate "C", settings text collate "C", credentials text collate "C",
  "formerNames" text collate "C" not null default '[]'
);
create unique index region_name on region (name);
create unique index region_value on region (value);

create table egress ("holderId" text collate "C" not null primary key, policy text collate "C" not null);

create table image (
  id text collate "C" primary key not null, name text collate "C" not null, ref text collate "C" not null,
  architecture text collate "C" not null, tags text collate "C" not null, type text collate "C" not null,
  "createdAtMs" bigint not null, "isPublic" smallint not null, "inCatalog" smallint not null,
  version bigint not null default 1, "ownerId" text collate "C", state text collate "C" not null default 'Ready',
  "stateText" text collate "C" not null default '', "fromInstanceId" text collate "C", "regionId" text collate "C",
  "sizeBytes" bigint not null default 0, attempts bigint not null default 0, generation bigint not null default 1,
  operation text collate "C", "dueAtMs" bigint, "leaseOwner" text collate "C", "leaseToken" text collate "C",
  "leaseUntilMs" bigint
);
create index image_due on image ("dueAtMs", id) where "dueAtMs" is not null;
create index image_lease on image ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index image_owner on image ("ownerId") where "ownerId" is not null;
create index image_ref on image (ref);
create index image_from on image ("fromInstanceId") where "fromInstanceId" is not null;

create table "instanceType" (
  id text collate "C" primary key not null, "regionId" text collate "C" not null references region (id),
  name text collate "C" not null, "cpuType" text collate "C" not null, "gpuName" text collate "C" not null,
  prices text collate "C" not null, "cpuCores" double precision not null, "memoryGB" double precision not null,
  "rootDiskGB" double precision not null, "dataDiskGB" double precision not null, "gpuCount" bigint not null,
  position bigint not null, "isSpot" smallint not null, "inCatalog" smallint not null,
  version bigint not null default 1, runtime text collate "C"
);
create unique index "instanceType_name" on "instanceType" ("regionId", name);

create table instance (
  id text collate "C" primary key not null, "ownerId" text collate "C" not null references account (id),
  "ownerName" text collate "C" not null, "regionId" text collate "C" not null references region (id),
  desired text collate "C" not null, status text collate "C" not null, "typeId" text collate "C" not null default '',
  "imageId" text collate "C" not null default '', "searchName" text collate "C" not null default '',
  "notebookToken" text collate "C" not null, "createdAtMs" bigint not null, "priceMicros" bigint not null,
  generation bigint not null, revision bigint not null default 0, attempts bigint not null,
  "requestedAtMs" bigint not null, "mustHalt" smallint not null, "everEnsured" smallint not null,
  "filesStale" smallint not null, "holdsCapacity" smallint not null, listed smallint not null, "initExit" bigint,
  "releasedAtMs" bigint, "waitsSinceMs" bigint, "waitsUntilMs" bigint, "notBeforeMs" bigint, "windowEndsAtMs" bigint,
  "reclaimAtMs" bigint, "tideRegionId" text collate "C", "spotRegionId" text collate "C",
  "resumesAfter" text collate "C", "stopDueAtMs" bigint, "idleAfterMs" bigint, "dueAtMs" bigint,
  "leaseOwner" text collate "C", "leaseToken" text collate "C", "leaseUntilMs" bigint, spec text collate "C" not null,
  "nodePorts" text collate "C" not null, observed text collate "C" not null, "stopPolicy" text collate "C" not null,
  "portAccess" text collate "C" not null, unfinished text collate "C" not null, "diskUsage" text collate "C" not null,
  operation text collate "C" not null, archive text collate "C", pending text collate "C",
  "oldContainer" text collate "C", labels text collate "C", "publicText" text collate "C" not null
);
create index instance_due on instance ("dueAtMs", id) where "dueAtMs" is not null;
create index instance_lease on instance ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index instance_list on instance
  ("ownerId", listed, "createdAtMs" desc, id desc, status, "searchName", "priceMicros");
create index instance_newest on instance ("createdAtMs" desc, id desc, "searchName", "priceMicros")
  where listed = 1;
create index instance_released on instance (listed, "releasedAtMs") where "releasedAtMs" is not null;
create index instance_waiting on instance ("regionId", "waitsSinceMs", id) where "waitsSinceMs" is not null;
create index instance_stop on instance ("stopDueAtMs", id) where "stopDueAtMs" is not null;
create index instance_idle on instance (id) where "idleAfterMs" is not null;
create index instance_type on instance ("typeId");
create index instance_image on instance ("imageId");
create index instance_tide on instance ("tideRegionId", "notBeforeMs", id) where "tideRegionId" is not null;
create index instance_spot on instance ("spotRegionId", "holdsCapacity") where "spotRegionId" is not null;
create index instance_reclaim on instance ("reclaimAtMs", id)
  where "reclaimAtMs" is not null and desired = 'running';
create index instance_resume on instance ("resumesAfter", "regionId", id) where "resumesAfter" is not null;
create index instance_holders on instance ("regionId", id) where "holdsCapacity" = 1;

create table volume (
  id text collate "C" primary key not null, "ownerId" text collate "C" not null references account (id),
  "ownerName" text collate "C" not null, "regionId" text collate "C" not null references region (id),
  name text collate "C" not null, type text collate "C" not null, status text collate "C" not null,
  "searchName" text collate "C" not null default '', "createdAtMs" bigint not null, "usageBytes" bigint not null,
  generation bigint not null, "sizeGB" double precision not null, listed smallint not null,
  "liveName" text collate "C", source text collate "C", "dueAtMs" bigint, "leaseOwner" text collate "C",
  "leaseToken" text collate "C", "leaseUntilMs" bigint, operation text collate "C" not null, labels text collate "C",
  "publicText" text collate "C" not null
);
create index volume_due on volume ("dueAtMs", id) where "dueAtMs" is not null;
create index volume_lease on volume ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index volume_list on volume ("ownerId", listed, "createdAtMs" desc, id desc, "searchName", "sizeGB");
create index volume_newest on volume ("createdAtMs" desc, id desc, "searchName", "sizeGB") where listed = 1;
create unique index "volume_liveName" on volume ("liveName");
create index volume_region on volume ("regionId");
create index volume_source on volume (source) where source is not null;

create table snapshot (
  id text collate "C" primary key not null, "ownerId" text collate "C" not null,
  "ownerName" text collate "C" not null, "regionId" text collate "C" not null, name text collate "C" not null,
  "volumeId" text collate "C" not null, "volumeName" text collate "C" not null,
  "volumeType" text collate "C" not null, consistency text collate "C" not null, status text collate "C" not null,
  "createdAtMs" bigint not null, "sizeGB" bigint not null, generation bigint not null, listed smallint not null,
  "liveName" text collate "C", "dueAtMs" bigint, "leaseOwner" text collate "C", "leaseToken" text collate "C",
  "leaseUntilMs" bigint, operation text collate "C" not null, "publicText" text collate "C" not null
);
create index snapshot_due on snapshot ("dueAtMs", id) where "dueAtMs" is not null;
create index snapshot_lease on snapshot ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index snapshot_list on snapshot ("ownerId", "createdAtMs", id) where listed = 1;
create unique index "snapshot_liveName" on snapshot ("liveName");
create index snapshot_volume on snapshot ("volumeId");

create table label (
  "subjectId" text collate "C" not null, key text collate "C" not null, value text collate "C" not null,
  "ownerId" text collate "C" not null, primary key ("subjectId", key)
);
create index label_find on label ("ownerId", key, value, "subjectId");

create table pool (
  id text collate "C" primary key not null, "regionId" text collate "C" not null, name text collate "C" not null,
  "limitGB" bigint not null, "usedGB" bigint not null default 0, "bestEffortGB" bigint not null default 0,
  warned smallint not null default 0
);

create table disk (
  id text collate "C" primary key not null, kind text collate "C" not null, "subjectId" text collate "C" not null,
  "regionId" text collate "C" not null, pool text collate "C" not null, "ownerId" text collate "C" not null,
  "sizeGB" bigint not null, "promisedGB" bigint not null default 0, "bestEffortGB" bigint not null default 0,
  provisioned smallint not null default 0, "usageBytes" bigint not null default 0,
  "warnedPercent" bigint not null default 0
);
create index disk_region on disk ("regionId", id);
create index disk_owner on disk ("ownerId") where "promisedGB" > 0;

create table "nodePort" (
  "regionId" text collate "C" not null references region (id), "nodePort" bigint not null, port bigint not null,
  "instanceId" text collate "C" not null references instance (id) on delete cascade,
  primary key ("regionId", "nodePort")
);
create unique index "nodePort_instance" on "nodePort" ("instanceId", port);

create table mount (
  "mountPath" text collate "C" not null,
  "instanceId" text collate "C" not null references instance (id) on delete cascade,
  "volumeId" text collate "C" not null references volume (id) on delete cascade,
  primary key ("instanceId", "mountPath", "volumeId")
);
create index mount_volume on mount ("volumeId");

create table idempotency (
  "accountId" text collate "C" not null, key text collate "C" not null, route text collate "C" not null,
  "bodyHash" text collate "C" not null, answer text collate "C" not null, "createdAtMs" bigint not null,
  primary key ("accountId", key)
);
create index idempotency_age on idempotency ("createdAtMs");

create table event (
  id bigint generated by default as identity primary key, "accountId" text collate "C" not null,
  kind text collate "C" not null, "subjectId" text collate "C" not null, data text collate "C" not null,
  seq bigint not null, "atMs" bigint not null
);
create unique index event_seq on event ("accountId", seq);

create table operation (
  id text collate "C" primary key not null, "accountId" text collate "C" not null,
  "subjectId" text collate "C" not null, kind text collate "C" not null, operation text collate "C" not null,
  generation bigint not null, "archivedAtMs" bigint not null
);
create index operation_subject on operation ("subjectId", generation);
create index operation_archived on operation ("archivedAtMs");

create table orphan (
  id text collate "C" primary key not null, "regionId" text collate "C" not null, kind text collate "C" not null,
  "engineName" text collate "C" not null, "subjectId" text collate "C" not null, "ownerId" text collate "C" not null,
  "imageRef" text collate "C" not null, handling text collate "C" not null, note text collate "C" not null,
  generation bigint not null, "createdAtMs" bigint not null, "firstSeenAtMs" bigint not null,
  "lastSeenAtMs" bigint not null, "watchedMs" bigint not null, running smallint not null
);

create table "portShare" (
  id text collate "C" primary key not null, hash text collate "C" not null, "instanceId" text collate "C" not null,
  "accountId" text collate "C" not null, name text collate "C" not null, port bigint not null,
  "createdAtMs" bigint not null, "expiresAtMs" bigint not null
);
create unique index "portShare_hash" on "portShare" (hash);
create index "portShare_instance" on "portShare" ("instanceId", "createdAtMs");
create index "portShare_account" on "portShare" ("accountId", "expiresAtMs");
create index "portShare_expiry" on "portShare" ("expiresAtMs");

create table "metricMinute" (
  "atMs" bigint not null, part bigint not null, body bytea not null, primary key ("atMs", part)
);

create table "metricHour" (
  "instanceId" text collate "C" not null, "atMs" bigint not null, body bytea not null,
  primary key ("instanceId", "atMs")
);
create index "metricHour_age" on "metricHour" ("atMs");

create table "auditPending" (
  id bigint generated by default as identity primary key, record text collate "C" not null
);

create table audit (
  position bigint primary key, hash text collate "C" not null, "atMs" bigint not null,
  "accountId" text collate "C" not null, username text collate "C" not null, credential text collate "C" not null,
  "credentialId" text collate "C" not null, address text collate "C" not null, "userAgent" text collate "C" not null,
  route text collate "C" not null, subjects text collate "C" not null, outcome text collate "C" not null,
  count bigint not null, "requestId" text collate "C" not null
);
create index "audit_accountId" on audit ("accountId", position);
create index audit_route on audit (route, position);
create index audit_outcome on audit (outcome, position);
create index "audit_atMs" on audit ("atMs");

create table "auditSubject" (
  "subjectId" text collate "C" not null, position bigint not null, primary key ("subjectId", position)
);
create index "auditSubject_position" on "auditSubject" (position);

create table webhook (
  id text collate "C" not null primary key,
  "ownerId" text collate "C" not null references account (id) on delete cascade, "allAccounts" smallint not null,
  url text collate "C" not null, kinds text collate "C" not null, secret text collate "C" not null,
  "createdAtMs" bigint not null, enabled smallint not null, attempts bigint not null default 0,
  failures bigint not null default 0, "nextAttemptAtMs" bigint not null default 0, "failingSinceMs" bigint,
  "lastError" text collate "C" not null default ''
);
create index webhook_owner on webhook ("ownerId");
create index webhook_due on webhook (enabled, "nextAttemptAtMs");

create table "webhookCursor" (
  "webhookId" text collate "C" not null references webhook (id) on delete cascade,
  "accountId" text collate "C" not null, seq bigint not null, primary key ("webhookId", "accountId")
);

create table "webhookDelivery" (
  id text collate "C" not null primary key,
  "webhookId" text collate "C" not null references webhook (id) on delete cascade,
  "accountId" text collate "C" not null, seq bigint not null, kind text collate "C" not null, "atMs" bigint not null,
  attempts bigint not null, delivered smallint not null, status bigint not null, answer text collate "C" not null,
  "tookMs" bigint not null
);
create index "webhookDelivery_newest" on "webhookDelivery" ("webhookId", "atMs", id);

create table "webhookBacklog" (
  id text collate "C" not null primary key,
  "webhookId" text collate "C" not null references webhook (id) on delete cascade,
  "accountId" text collate "C" not null, seq bigint not null, "subjectId" text collate "C" not null,
  refusals bigint not null, "dueAtMs" bigint, "setAsideAtMs" bigint, status bigint not null,
  answer text collate "C" not null,
  foreign key ("accountId", seq) references event ("accountId", seq) on delete cascade
);
create index "webhookBacklog_event" on "webhookBacklog" ("accountId", seq);
create index "webhookBacklog_due" on "webhookBacklog" ("webhookId", "dueAtMs") where "dueAtMs" is not null;
create index "webhookBacklog_newest" on "webhookBacklog" ("webhookId", "setAsideAtMs", seq);

create table "usagePeriod" (
  id bigint generated by default as identity primary key, "accountId" text collate "C" not null,
  "subjectId" text collate "C" not null, "subjectName" text collate "C" not null, meter text collate "C" not null,
  state text collate "C" not null, "regionId" text collate "C" not null, "typeId" text collate "C" not null,
  "priceMicros" bigint not null, quantity bigint not null, "unitMs" bigint not null, "openedAtMs" bigint not null,
  "closedAtMs" bigint, "openSeq" bigint not null, "closeSeq" bigint, "chargedUntilMs" bigint not null,
  "chargedMicros" bigint not null default 0, carry bigint not null, "isCharging" integer not null,
  labels text collate "C"
);
create unique index usage_period_open on "usagePeriod" ("subjectId") where "closedAtMs" is null;
create index usage_period_subject on "usagePeriod" ("subjectId", id);
create index usage_period_account on "usagePeriod" ("accountId", "openedAtMs");
create index usage_period_charging on "usagePeriod" (id) where "isCharging" = 1;
create index usage_period_current on "usagePeriod" ("accountId", id) where "closedAtMs" is null;
create index usage_period_closed on "usagePeriod"
  ("accountId", "closedAtMs", meter, state, "openedAtMs", quantity, "priceMicros", "chargedUntilMs", id)
  where "closedAtMs" is not null;
create index usage_period_resource on "usagePeriod"
  ("accountId", "subjectId", meter, state, "closedAtMs", "openedAtMs", quantity, "priceMicros",
   "chargedUntilMs", id)
  where "closedAtMs" is not null;

create table entry (
  id bigint generated by default as identity primary key, "accountId" text collate "C" not null,
  "atMs" bigint not null, kind text collate "C" not null, "fromLedger" text collate "C" not null,
  "toLedger" text collate "C" not null, "amountMicros" bigint not null, "grantId" text collate "C" not null,
  "subjectId" text collate "C" not null, meter text collate "C" not null, "periodId" bigint, "hourMs" bigint,
  "fromMs" bigint, "untilMs" bigint, reason text collate "C" not null, "byAccountId" text collate "C" not null,
  "reversesId" bigint, "priceMicros" bigint, "priceUnit" text collate "C"
);
create unique index entry_hour on entry ("periodId", "hourMs", "fromLedger", "grantId");
create index entry_subject on entry ("subjectId", id) where kind <> 'charge';
create index entry_other on entry ("accountId", "atMs") where kind <> 'charge';
create index entry_account on entry
  ("accountId", "atMs", id, "periodId", "fromLedger", meter, "amountMicros");

create table "formerAccount" (
  id text collate "C" not null primary key, username text collate "C" not null, "deletedAtMs" bigint not null
);

create table "creditGrant" (
  id text collate "C" not null primary key, "accountId" text collate "C" not null, kind text collate "C" not null,
  "amountMicros" bigint not null, "leftMicros" bigint not null, "expiresAtMs" bigint, scope text collate "C" not null,
  reason text collate "C" not null, "createdAtMs" bigint not null
);
create index credit_grant_account on "creditGrant" ("accountId") where "leftMicros" > 0;
create index credit_grant_expiry on "creditGrant" ("expiresAtMs") where "leftMicros" > 0;
create index credit_grant_time on "creditGrant" ("accountId", "createdAtMs", id);

create table "paidTime" (
  "instanceId" text collate "C" not null primary key, "accountId" text collate "C" not null,
  "chargeMode" text collate "C" not null, units bigint not null, "priceMicros" bigint not null,
  "isPaid" integer not null, "anchorMs" bigint, "unitsBefore" bigint not null, "timeZone" text collate "C" not null,
  "endsAtMs" bigint, "dueAtMs" bigint, "firstEntryId" bigint not null, "runSeq" bigint
);
create index paid_time_due on "paidTime" ("dueAtMs", "instanceId") where "dueAtMs" is not null;

create table payment (
  id text collate "C" not null primary key, "intentId" text collate "C" not null, provider text collate "C" not null,
  "accountId" text collate "C" not null, "amountMicros" bigint not null, currency text collate "C" not null,
  "entryId" bigint, "atMs" bigint not null
);
create unique index payment_intent on payment (provider, "intentId") where "intentId" <> '';

create table "paymentRefund" (
  provider text collate "C" not null, "intentId" text collate "C" not null, "askedMicros" bigint not null,
  "takenMicros" bigint not null, primary key (provider, "intentId")
);

create table "priceChange" (
  id bigint generated by default as identity primary key, "fromMs" bigint not null,
  "regionId" text collate "C" not null, "typeId" text collate "C" not null, prices text collate "C" not null,
  "byAccountId" text collate "C" not null, "isScheduled" integer not null default 0
);
create index price_change_time on "priceChange" ("fromMs", id);
create index price_change_type on "priceChange" ("typeId", "fromMs", id);
create unique index price_change_scheduled on "priceChange" ("fromMs", "regionId", "typeId")
  where "isScheduled" = 1;

create table budget (
  id text collate "C" not null primary key, "accountId" text collate "C" not null, name text collate "C" not null,
  "labelKey" text collate "C" not null, "labelValue" text collate "C" not null, "timeZone" text collate "C" not null,
  "softMicros" bigint, "hardMicros" bigint, "byAdministrator" integer not null, "createdAtMs" bigint not null,
  month text collate "C" not null, "settledUntilMs" bigint not null, "settledMicros" bigint not null,
  "softReached" integer not null, "hardReached" integer not null
);
create unique index budget_name on budget ("accountId", name);
create index budget_reached on budget ("accountId") where "hardReached" = 1;

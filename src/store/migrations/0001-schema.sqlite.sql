-- The tables of `db/schema.ts` and their indexes for SQLite; 0001-schema.postgres.sql has the same.
--
-- Indexes of pending work are partial, so rows at rest cost nothing. `=`, `<=` or `is not null` on
-- the column implies their conditions. SQLite does not look into parameters (`listed = ?` would not
-- use an index `where listed = 1`): `listed` is a column of the lists' indexes.
--
-- Foreign keys guard against a missing parent and delete children with their parent. Append-only
-- records (event, idempotency, audit, the books) have none: they outlive their subject.
--
-- Columns that filters read come before the large texts: SQLite reads a row from its beginning.

create table setting (
  name text not null, value text not null, primary key (name)
) without rowid;

create table "signingKey" (
  kid text primary key not null, "privateJwk" text not null, "publicJwk" text not null,
  "createdAtMs" bigint not null, "retiredAtMs" bigint
);

create table account (
  id text primary key not null, username text not null, email text not null, "passwordHash" text not null,
  roles text not null, "createdAtMs" bigint not null, disabled smallint not null, "disabledAtMs" bigint,
  "disabledReason" text not null default '', "deleteAtMs" bigint, version bigint not null default 0,
  "eventSeq" bigint not null default 0, "instanceCount" bigint not null default 0,
  "volumeCount" bigint not null default 0, "balanceMicros" bigint not null default 0,
  "voucherMicros" bigint not null default 0, "creditMicros" bigint not null default 0,
  "overdraftMicros" bigint not null default 0, "moneyStep" text not null default 'none',
  "moneyArchiveAtMs" bigint, "moneyDeleteAtMs" bigint, "moneyDeleteWarnedAtMs" bigint,
  usage text not null default '{}'
);
create unique index account_username on account (username);
create unique index account_email on account (email) where email <> '';
create index account_disabled on account (id) where disabled = 1;
create index account_list on account ("createdAtMs" desc, id desc);
create index account_money_step on account ("moneyStep", id) where "moneyStep" <> 'none';

-- Limits; `accountId` is '' for those of the installation.
create table quota (
  "accountId" text not null, name text not null, value bigint not null, primary key ("accountId", name)
);

create table session (
  id text primary key not null, "accountId" text not null references account (id) on delete cascade,
  "createdAtMs" bigint not null, "expiresAtMs" bigint not null, "revokedAtMs" bigint,
  address text not null default '', "userAgent" text not null default '', "lastUsedAtMs" bigint not null default 0
);
create index session_account on session ("accountId");
create index session_expiry on session ("expiresAtMs");

create table "passwordLink" (
  hash text primary key not null, "accountId" text not null references account (id) on delete cascade,
  kind text not null, "expiresAtMs" bigint not null
);
create index "passwordLink_account" on "passwordLink" ("accountId");

create table "apiKey" (
  id text primary key not null, "accountId" text not null references account (id) on delete cascade,
  name text not null, hash text not null, prefix text not null default '', "lastFour" text not null,
  scopes text, addresses text, "expiresAtMs" bigint, "lastUsedAtMs" bigint, "createdAtMs" bigint not null
);
create index "apiKey_account" on "apiKey" ("accountId");
create unique index "apiKey_hash" on "apiKey" (hash);

create table identity (
  issuer text not null, subject text not null, "accountId" text not null references account (id) on delete cascade,
  "createdAtMs" bigint not null, primary key (issuer, subject)
);
create index identity_account on identity ("accountId");

create table "sshKey" (
  id text primary key not null, "accountId" text not null references account (id) on delete cascade,
  name text not null, "publicKey" text not null, kind text not null default 'key', fingerprint text not null,
  "createdAtMs" bigint not null
);
create index "sshKey_account" on "sshKey" ("accountId");

create table "registryCredential" (
  id text primary key not null, "accountId" text not null, server text not null, username text not null,
  secret text not null, "createdAtMs" bigint not null
);
create unique index "registryCredential_server" on "registryCredential" ("accountId", server);

create table "gatewayGrant" (
  hash text primary key not null, id text not null, kind text not null, "accountId" text not null,
  "instanceId" text not null, "openedAtMs" bigint not null, "expiresAtMs" bigint not null,
  "sessionId" text references session (id) on delete cascade,
  "apiKeyId" text references "apiKey" (id) on delete cascade
);
create unique index "gatewayGrant_id" on "gatewayGrant" (id);
create index "gatewayGrant_session" on "gatewayGrant" ("sessionId");
create index "gatewayGrant_apiKey" on "gatewayGrant" ("apiKeyId");
create index "gatewayGrant_instance" on "gatewayGrant" ("instanceId");
create index "gatewayGrant_account" on "gatewayGrant" ("accountId");
create index "gatewayGrant_expiry" on "gatewayGrant" ("expiresAtMs");

-- Environment variables of the installation, of accounts and of instances.
create table variable (
  "holderId" text not null, name text not null, "isSecret" smallint not null, sealed text not null,
  "updatedAtMs" bigint not null, primary key ("holderId", name)
);

create table template (
  "accountId" text not null, name text not null, sealed text not null, "updatedAtMs" bigint not null,
  primary key ("accountId", name)
);

create table region (
  id text primary key not null, name text not null, value text not null, location text not null,
  domain text not null, "sshAddress" text not null, engine text not null, "cpuMilliTotal" bigint not null,
  "memoryMiBTotal" bigint not null, "gpusTotal" bigint not null, "nodePortsTotal" bigint not null,
  "cpuMilliUsed" bigint not null default 0, "memoryMiBUsed" bigint not null default 0,
  "gpusUsed" bigint not null default 0, "nodePortsUsed" bigint not null default 0,
  version bigint not null default 1, "inCatalog" integer not null default 1, "ownDomain" text, "offPeak" text,
  drain text, "storagePrices" text, settings text, credentials text, "formerNames" text not null default '[]'
);
create unique index region_name on region (name);
create unique index region_value on region (value);

create table egress ("holderId" text not null primary key, policy text not null);

create table image (
  id text primary key not null, name text not null, ref text not null, architecture text not null,
  tags text not null, type text not null, "createdAtMs" bigint not null, "isPublic" smallint not null,
  "inCatalog" smallint not null, version bigint not null default 1, "ownerId" text,
  state text not null default 'Ready', "stateText" text not null default '', "fromInstanceId" text,
  "regionId" text, "sizeBytes" bigint not null default 0, attempts bigint not null default 0,
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
  "isSpot" smallint not null, "inCatalog" smallint not null, version bigint not null default 1, runtime text
);
create unique index "instanceType_name" on "instanceType" ("regionId", name);

create table instance (
  id text primary key not null, "ownerId" text not null references account (id), "ownerName" text not null,
  "regionId" text not null references region (id), desired text not null, status text not null,
  "typeId" text not null default '', "imageId" text not null default '', "searchName" text not null default '',
  "notebookToken" text not null, "createdAtMs" bigint not null, "priceMicros" bigint not null,
  generation bigint not null, revision bigint not null default 0, attempts bigint not null,
  "requestedAtMs" bigint not null, "mustHalt" smallint not null, "everEnsured" smallint not null,
  "filesStale" smallint not null, "holdsCapacity" smallint not null, listed smallint not null, "initExit" bigint,
  "releasedAtMs" bigint, "waitsSinceMs" bigint, "waitsUntilMs" bigint, "notBeforeMs" bigint,
  "windowEndsAtMs" bigint, "reclaimAtMs" bigint, "tideRegionId" text, "spotRegionId" text, "resumesAfter" text,
  "stopDueAtMs" bigint, "idleAfterMs" bigint, "dueAtMs" bigint, "leaseOwner" text, "leaseToken" text,
  "leaseUntilMs" bigint, spec text not null, "nodePorts" text not null, observed text not null,
  "stopPolicy" text not null, "portAccess" text not null, unfinished text not null, "diskUsage" text not null,
  operation text not null, archive text, pending text, "oldContainer" text, labels text, "publicText" text not null
);
create index instance_due on instance ("dueAtMs", id) where "dueAtMs" is not null;
create index instance_lease on instance ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
-- Lists are sorted and filtered by these columns alone: rows of instances are large, and those of
-- the page alone are read. Columns that change with each measurement stay out.
create index instance_list on instance
  ("ownerId", listed, "createdAtMs" desc, id desc, status, "searchName", "priceMicros");
create index instance_newest on instance ("createdAtMs" desc, id desc, "searchName", "priceMicros")
  where listed = 1;
create index instance_released on instance (listed, "releasedAtMs") where "releasedAtMs" is not null;
create index instance_waiting on instance ("regionId", "waitsSinceMs", id) where "waitsSinceMs" is not null;
create index instance_stop on instance ("stopDueAtMs", id) where "stopDueAtMs" is not null;
create index instance_idle on instance (id) where "idleAfterMs" is not null;
-- Without the region: by such an index, each page of a region's instances would be sorted.
create index instance_type on instance ("typeId");
create index instance_image on instance ("imageId");
create index instance_tide on instance ("tideRegionId", "notBeforeMs", id) where "tideRegionId" is not null;
create index instance_spot on instance ("spotRegionId", "holdsCapacity") where "spotRegionId" is not null;
create index instance_reclaim on instance ("reclaimAtMs", id)
  where "reclaimAtMs" is not null and desired = 'running';
create index instance_resume on instance ("resumesAfter", "regionId", id) where "resumesAfter" is not null;
-- Finds who holds the capacity of a region among all former instances.
create index instance_holders on instance ("regionId", id) where "holdsCapacity" = 1;

create table volume (
  id text primary key not null, "ownerId" text not null references account (id), "ownerName" text not null,
  "regionId" text not null references region (id), name text not null, type text not null,
  status text not null, "searchName" text not null default '', "createdAtMs" bigint not null,
  "usageBytes" bigint not null, generation bigint not null, "sizeGB" double precision not null,
  listed smallint not null, "liveName" text, source text, "dueAtMs" bigint, "leaseOwner" text, "leaseToken" text,
  "leaseUntilMs" bigint, operation text not null, labels text, "publicText" text not null
);
create index volume_due on volume ("dueAtMs", id) where "dueAtMs" is not null;
create index volume_lease on volume ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index volume_list on volume ("ownerId", listed, "createdAtMs" desc, id desc, "searchName", "sizeGB");
create index volume_newest on volume ("createdAtMs" desc, id desc, "searchName", "sizeGB") where listed = 1;
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

create table label (
  "subjectId" text not null, key text not null, value text not null, "ownerId" text not null,
  primary key ("subjectId", key)
);
create index label_find on label ("ownerId", key, value, "subjectId");

create table pool (
  id text primary key not null, "regionId" text not null, name text not null, "limitGB" bigint not null,
  "usedGB" bigint not null default 0, "bestEffortGB" bigint not null default 0, warned smallint not null default 0
);

create table disk (
  id text primary key not null, kind text not null, "subjectId" text not null, "regionId" text not null,
  pool text not null, "ownerId" text not null, "sizeGB" bigint not null,
  "promisedGB" bigint not null default 0, "bestEffortGB" bigint not null default 0,
  provisioned smallint not null default 0, "usageBytes" bigint not null default 0,
  "warnedPercent" bigint not null default 0
);
-- Pages of a region's disks are read in order, instead of sorting all rows for each page.
create index disk_region on disk ("regionId", id);
create index disk_owner on disk ("ownerId") where "promisedGB" > 0;

create table "nodePort" (
  "regionId" text not null references region (id), "nodePort" bigint not null, port bigint not null,
  "instanceId" text not null references instance (id) on delete cascade, primary key ("regionId", "nodePort")
) without rowid;
create unique index "nodePort_instance" on "nodePort" ("instanceId", port);

-- A mount path may have one volume now, and another after the next start.
create table mount (
  "mountPath" text not null, "instanceId" text not null references instance (id) on delete cascade,
  "volumeId" text not null references volume (id) on delete cascade,
  primary key ("instanceId", "mountPath", "volumeId")
);
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

create table "portShare" (
  id text primary key not null, hash text not null, "instanceId" text not null, "accountId" text not null,
  name text not null, port bigint not null, "createdAtMs" bigint not null, "expiresAtMs" bigint not null
);
create unique index "portShare_hash" on "portShare" (hash);
create index "portShare_instance" on "portShare" ("instanceId", "createdAtMs");
create index "portShare_account" on "portShare" ("accountId", "expiresAtMs");
create index "portShare_expiry" on "portShare" ("expiresAtMs");

create table "metricMinute" (
  "atMs" bigint not null, part bigint not null, body blob not null, primary key ("atMs", part)
);

create table "metricHour" (
  "instanceId" text not null, "atMs" bigint not null, body blob not null, primary key ("instanceId", "atMs")
);
create index "metricHour_age" on "metricHour" ("atMs");

-- The audit log: records wait here until they get a position and a hash.
create table "auditPending" (id integer primary key, record text not null);

create table audit (
  position integer primary key, hash text not null, "atMs" bigint not null, "accountId" text not null,
  username text not null, credential text not null, "credentialId" text not null, address text not null,
  "userAgent" text not null, route text not null, subjects text not null, outcome text not null,
  count bigint not null, "requestId" text not null
);
create index "audit_accountId" on audit ("accountId", position);
create index audit_route on audit (route, position);
create index audit_outcome on audit (outcome, position);
create index "audit_atMs" on audit ("atMs");

create table "auditSubject" (
  "subjectId" text not null, position bigint not null, primary key ("subjectId", position)
) without rowid;
create index "auditSubject_position" on "auditSubject" (position);

create table webhook (
  id text not null primary key, "ownerId" text not null references account (id) on delete cascade,
  "allAccounts" smallint not null, url text not null, kinds text not null, secret text not null,
  "createdAtMs" bigint not null, enabled smallint not null, attempts bigint not null default 0,
  failures bigint not null default 0, "nextAttemptAtMs" bigint not null default 0, "failingSinceMs" bigint,
  "lastError" text not null default ''
);
create index webhook_owner on webhook ("ownerId");
create index webhook_due on webhook (enabled, "nextAttemptAtMs");

create table "webhookCursor" (
  "webhookId" text not null references webhook (id) on delete cascade, "accountId" text not null,
  seq bigint not null, primary key ("webhookId", "accountId")
);

create table "webhookDelivery" (
  id text not null primary key, "webhookId" text not null references webhook (id) on delete cascade,
  "accountId" text not null, seq bigint not null, kind text not null, "atMs" bigint not null,
  attempts bigint not null, delivered smallint not null, status bigint not null, answer text not null,
  "tookMs" bigint not null
);
create index "webhookDelivery_newest" on "webhookDelivery" ("webhookId", "atMs", id);

create table "webhookBacklog" (
  id text not null primary key, "webhookId" text not null references webhook (id) on delete cascade,
  "accountId" text not null, seq bigint not null, "subjectId" text not null, refusals bigint not null,
  "dueAtMs" bigint, "setAsideAtMs" bigint, status bigint not null, answer text not null,
  foreign key ("accountId", seq) references event ("accountId", seq) on delete cascade
);
create index "webhookBacklog_event" on "webhookBacklog" ("accountId", seq);
create index "webhookBacklog_due" on "webhookBacklog" ("webhookId", "dueAtMs") where "dueAtMs" is not null;
create index "webhookBacklog_newest" on "webhookBacklog" ("webhookId", "setAsideAtMs", seq);

create table "usagePeriod" (
  id integer primary key autoincrement, "accountId" text not null, "subjectId" text not null,
  "subjectName" text not null, meter text not null, state text not null, "regionId" text not null,
  "typeId" text not null, "priceMicros" bigint not null, quantity bigint not null, "unitMs" bigint not null,
  "openedAtMs" bigint not null, "closedAtMs" bigint, "openSeq" bigint not null, "closeSeq" bigint,
  "chargedUntilMs" bigint not null, "chargedMicros" bigint not null default 0, carry bigint not null,
  "isCharging" integer not null, labels text
);
create unique index usage_period_open on "usagePeriod" ("subjectId") where "closedAtMs" is null;
create index usage_period_subject on "usagePeriod" ("subjectId", id);
create index usage_period_account on "usagePeriod" ("accountId", "openedAtMs");
create index usage_period_charging on "usagePeriod" (id) where "isCharging" = 1;
create index usage_period_current on "usagePeriod" ("accountId", id) where "closedAtMs" is null;
-- Statements and reports read these alone.
create index usage_period_closed on "usagePeriod"
  ("accountId", "closedAtMs", meter, state, "openedAtMs", quantity, "priceMicros", "chargedUntilMs", id)
  where "closedAtMs" is not null;
create index usage_period_resource on "usagePeriod"
  ("accountId", "subjectId", meter, state, "closedAtMs", "openedAtMs", quantity, "priceMicros",
   "chargedUntilMs", id)
  where "closedAtMs" is not null;

create table entry (
  id integer primary key autoincrement, "accountId" text not null, "atMs" bigint not null, kind text not null,
  "fromLedger" text not null, "toLedger" text not null, "amountMicros" bigint not null,
  "grantId" text not null, "subjectId" text not null, meter text not null, "periodId" bigint,
  "hourMs" bigint, "fromMs" bigint, "untilMs" bigint, reason text not null, "byAccountId" text not null,
  "reversesId" bigint, "priceMicros" bigint, "priceUnit" text
);
create unique index entry_hour on entry ("periodId", "hourMs", "fromLedger", "grantId");
create index entry_subject on entry ("subjectId", id) where kind <> 'charge';
create index entry_other on entry ("accountId", "atMs") where kind <> 'charge';
-- One index by account for pages and sums: each booking writes a page of each index.
create index entry_account on entry
  ("accountId", "atMs", id, "periodId", "fromLedger", meter, "amountMicros");

create table "formerAccount" (
  id text not null primary key, username text not null, "deletedAtMs" bigint not null
);

create table "creditGrant" (
  id text not null primary key, "accountId" text not null, kind text not null, "amountMicros" bigint not null,
  "leftMicros" bigint not null, "expiresAtMs" bigint, scope text not null, reason text not null,
  "createdAtMs" bigint not null
);
create index credit_grant_account on "creditGrant" ("accountId") where "leftMicros" > 0;
create index credit_grant_expiry on "creditGrant" ("expiresAtMs") where "leftMicros" > 0;
create index credit_grant_time on "creditGrant" ("accountId", "createdAtMs", id);

create table "paidTime" (
  "instanceId" text not null primary key, "accountId" text not null, "chargeMode" text not null,
  units bigint not null, "priceMicros" bigint not null, "isPaid" integer not null, "anchorMs" bigint,
  "unitsBefore" bigint not null, "timeZone" text not null, "endsAtMs" bigint, "dueAtMs" bigint,
  "firstEntryId" bigint not null, "runSeq" bigint
);
create index paid_time_due on "paidTime" ("dueAtMs", "instanceId") where "dueAtMs" is not null;

create table payment (
  id text not null primary key, "intentId" text not null, provider text not null, "accountId" text not null,
  "amountMicros" bigint not null, currency text not null, "entryId" bigint, "atMs" bigint not null
);
create unique index payment_intent on payment (provider, "intentId") where "intentId" <> '';

create table "paymentRefund" (
  provider text not null, "intentId" text not null, "askedMicros" bigint not null,
  "takenMicros" bigint not null, primary key (provider, "intentId")
);

create table "priceChange" (
  id integer primary key autoincrement, "fromMs" bigint not null, "regionId" text not null,
  "typeId" text not null, prices text not null, "byAccountId" text not null,
  "isScheduled" integer not null default 0
);
create index price_change_time on "priceChange" ("fromMs", id);
create index price_change_type on "priceChange" ("typeId", "fromMs", id);
create unique index price_change_scheduled on "priceChange" ("fromMs", "regionId", "typeId")
  where "isScheduled" = 1;

create table budget (
  id text not null primary key, "accountId" text not null, name text not null, "labelKey" text not null,
  "labelValue" text not null, "timeZone" text not null, "softMicros" bigint, "hardMicros" bigint,
  "byAdministrator" integer not null, "createdAtMs" bigint not null, month text not null,
  "settledUntilMs" bigint not null, "settledMicros" bigint not null, "softReached" integer not null,
  "hardReached" integer not null
);
create unique index budget_name on budget ("accountId", name);
create index budget_reached on budget ("accountId") where "hardReached" = 1;

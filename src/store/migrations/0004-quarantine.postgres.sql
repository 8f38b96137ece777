create table quarantine (
  id text collate "C" primary key not null, "regionId" text collate "C" not null, "cardId" text collate "C" not null,
  reason text collate "C" not null, evidence text collate "C" not null, "sinceMs" bigint not null,
  "isReturned" smallint not null default 0
);
create index quarantine_region on quarantine ("regionId");

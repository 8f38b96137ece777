create table quarantine (
  id text primary key not null, "regionId" text not null, "cardId" text not null, reason text not null,
  evidence text not null, "sinceMs" bigint not null, "isReturned" smallint not null default 0
);
create index quarantine_region on quarantine ("regionId");

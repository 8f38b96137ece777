create table watch (
  kind text collate "C" not null, "subjectId" text collate "C" not null, "regionId" text collate "C" not null,
  "sinceMs" bigint not null, run text not null, "usedAtMs" bigint, "willStopAtMs" bigint,
  primary key (kind, "subjectId")
);

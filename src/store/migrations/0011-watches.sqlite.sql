create table watch (
  kind text not null, "subjectId" text not null, "regionId" text not null, "sinceMs" bigint not null,
  run text not null, "usedAtMs" bigint, "willStopAtMs" bigint, primary key (kind, "subjectId")
);

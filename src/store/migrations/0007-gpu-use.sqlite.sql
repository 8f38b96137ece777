create table "gpuUse" (
  "accountId" text not null, "atMs" bigint not null, "heldMs" bigint not null, "measuredMs" bigint not null,
  "busyMs" bigint not null, primary key ("accountId", "atMs")
);
create index "gpuUse_age" on "gpuUse" ("atMs");

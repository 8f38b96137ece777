create table "regionUse" (
  "regionId" text not null, "atMs" bigint not null, resource text not null, total bigint not null,
  promised bigint not null, used bigint, primary key ("regionId", "atMs", resource)
);

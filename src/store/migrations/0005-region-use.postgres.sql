create table "regionUse" (
  "regionId" text not null, "atMs" bigint not null, "cpuMilliTotal" bigint not null,
  "cpuMilliPromised" bigint not null, "cpuMilliUsed" bigint, "memoryMiBTotal" bigint not null,
  "memoryMiBPromised" bigint not null, "memoryMiBUsed" bigint, "gpuMilliTotal" bigint not null,
  "gpuMilliPromised" bigint not null, "gpuMilliUsed" bigint, "diskGBTotal" bigint not null,
  "diskGBPromised" bigint not null, "diskGBUsed" bigint, primary key ("regionId", "atMs")
);

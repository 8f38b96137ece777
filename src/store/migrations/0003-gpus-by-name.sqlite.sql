alter table region drop column "gpusTotal";
alter table region drop column "gpusUsed";
alter table region add column "gpusTotal" text not null default '{}';
alter table region add column "gpusUsed" text not null default '{}';
alter table region add column "reservePerGpu" text;
update region set "gpusUsed" = coalesce((
  select json_group_object(name, count) from (
    select spec ->> '$.type.gpuName' as name, sum(spec ->> '$.type.gpuCount') as count from instance
    where "regionId" = region.id and "holdsCapacity" = 1 and spec ->> '$.cpuOnlyPriceMicros' is null
      and spec ->> '$.type.gpuCount' > 0
    group by 1)), '{}');

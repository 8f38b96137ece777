alter table region drop column "gpusTotal";
alter table region drop column "gpusUsed";
alter table region add column "gpusTotal" text not null default '{}';
alter table region add column "gpusUsed" text not null default '{}';
alter table region add column "reservePerGpu" text;
update region set "gpusUsed" = coalesce((
  select json_object_agg(name, count)::text from (
    select spec::json #>> '{type,gpuName}' as name, sum((spec::json #>> '{type,gpuCount}')::bigint) as count
    from instance
    where "regionId" = region.id and "holdsCapacity" = 1 and spec::json ->> 'cpuOnlyPriceMicros' is null
      and (spec::json #>> '{type,gpuCount}')::bigint > 0
    group by 1) as held), '{}');

alter table instance add column "rootDisk" text not null default 'none';
update instance set "rootDisk" = case when status = 'Archived' then 'saved' else 'kept' end
  where desired <> 'released' and "everEnsured" = 1
    and (status in ('Running', 'Restarting', 'Stopped', 'Archived') or ("diskUsage"::jsonb ->> 'rootBytes')::bigint > 0)
    and "regionId" in (select id from region where engine <> 'kubernetes');
create index "instance_keptRootDisk" on instance ("regionId", id) where "rootDisk" = 'kept';
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'saveRootDisk/' || id, 'saveRootDisk', id, "ownerId", 0 from instance
  where "rootDisk" = 'kept' and desired = 'stopped' and status in ('Stopped', 'StartingFailed');

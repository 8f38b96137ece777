create table "dueAct" (
  id text primary key not null, kind text not null, "subjectId" text not null,
  "ownerId" text not null, "dueAtMs" bigint, attempts bigint not null default 0, error text,
  generation bigint not null default 0, "leaseOwner" text, "leaseToken" text, "leaseUntilMs" bigint
);
create index "dueAct_due" on "dueAct" ("dueAtMs", id) where "dueAtMs" is not null;
create index "dueAct_lease" on "dueAct" ("leaseOwner", "leaseUntilMs") where "leaseOwner" is not null;
create index "dueAct_owner" on "dueAct" ("ownerId");
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'stop/' || id, 'stop', id, "ownerId", "stopDueAtMs" from instance where "stopDueAtMs" is not null;
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'reclaim/' || id, 'reclaim', id, "ownerId", "reclaimAtMs" from instance
  where "reclaimAtMs" is not null and desired = 'running';
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'resume/' || id, 'resume', id, "ownerId", 0 from instance where "resumesAfter" is not null;
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'window/' || id, 'window', id, "ownerId", 0 from instance where "tideRegionId" is not null;
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'paidTime/' || "instanceId", 'paidTime', "instanceId", "accountId", "dueAtMs" from "paidTime"
  where "dueAtMs" is not null;
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'drain/' || id, 'drain', id, '', 0 from region where drain is not null;
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select distinct 'prices/' || "regionId", 'prices', "regionId", '', 0 from "priceChange" where "isScheduled" = 1;
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'disable/' || id, 'disable', id, id, 0 from account where disabled = 1;
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'deleteAccount/' || id, 'deleteAccount', id, id, "deleteAtMs" from account where "deleteAtMs" is not null;
insert into "dueAct" (id, kind, "subjectId", "ownerId", "dueAtMs")
  select 'money/' || id, 'money', id, id, 0 from account where "moneyStep" in ('stop', 'archive', 'delete');
drop index instance_stop;
drop index paid_time_due;
drop index instance_tide;
drop index instance_reclaim;
drop index instance_resume;
alter table instance drop column "stopDueAtMs";
alter table instance drop column "tideRegionId";
alter table instance drop column "resumesAfter";

alter table session add column issuer text collate "C";
alter table session add column subject text collate "C";
alter table session add column "providerSid" text collate "C";
create index session_subject on session (issuer, subject) where subject is not null;
create index "session_providerSid" on session (issuer, "providerSid") where "providerSid" is not null;

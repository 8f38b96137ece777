alter table session add column issuer text;
alter table session add column subject text;
alter table session add column "providerSid" text;
create index session_subject on session (issuer, subject) where subject is not null;
create index "session_providerSid" on session (issuer, "providerSid") where "providerSid" is not null;

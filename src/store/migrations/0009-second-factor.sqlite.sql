create table totp (
  "accountId" text primary key not null references account (id) on delete cascade, sealed text not null,
  "createdAtMs" bigint not null, "confirmedAtMs" bigint, "lastStep" bigint not null default 0
);
create table "recoveryCode" (
  hash text primary key not null, "accountId" text not null references account (id) on delete cascade
);
create index "recoveryCode_account" on "recoveryCode" ("accountId");
create table passkey (
  id text primary key not null, "accountId" text not null references account (id) on delete cascade,
  name text not null, "credentialId" text not null, "publicKey" text not null, counter bigint not null,
  transports text not null, "createdAtMs" bigint not null, "lastUsedAtMs" bigint
);
create unique index "passkey_credential" on passkey ("credentialId");
create index passkey_account on passkey ("accountId");
alter table account add column "secondFactors" text not null default '[]';
alter table session add column "secondFactor" smallint not null default 0;

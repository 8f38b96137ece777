create table totp (
  "accountId" text collate "C" primary key not null references account (id) on delete cascade,
  sealed text collate "C" not null, "createdAtMs" bigint not null, "confirmedAtMs" bigint,
  "lastStep" bigint not null default 0
);
create table "recoveryCode" (
  hash text collate "C" primary key not null,
  "accountId" text collate "C" not null references account (id) on delete cascade
);
create index "recoveryCode_account" on "recoveryCode" ("accountId");
create table passkey (
  id text collate "C" primary key not null,
  "accountId" text collate "C" not null references account (id) on delete cascade, name text collate "C" not null,
  "credentialId" text collate "C" not null, "publicKey" text collate "C" not null, counter bigint not null,
  transports text collate "C" not null, "createdAtMs" bigint not null, "lastUsedAtMs" bigint
);
create unique index "passkey_credential" on passkey ("credentialId");
create index passkey_account on passkey ("accountId");
alter table account add column "secondFactors" text collate "C" not null default '[]';
alter table session add column "secondFactor" smallint not null default 0;

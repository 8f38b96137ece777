import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const webhookBacklog: Migration = {
  name: '0044-webhook-backlog',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text not null` : sql`text collate "C" not null`;
    await sql`create table "webhookBacklog" (
      id ${text} primary key, "webhookId" ${text} references webhook (id) on delete cascade, "accountId" ${text},
      seq bigint not null, "subjectId" ${text}, refusals bigint not null, "dueAtMs" bigint, "setAsideAtMs" bigint,
      status bigint not null, answer ${text},
      foreign key ("accountId", seq) references event ("accountId", seq) on delete cascade)`.execute(db);
    await sql`create index "webhookBacklog_event" on "webhookBacklog" ("accountId", seq)`.execute(db);
    await sql`create index "webhookBacklog_due" on "webhookBacklog" ("webhookId", "dueAtMs")
      where "dueAtMs" is not null`.execute(db);
    await sql`create index "webhookBacklog_newest" on "webhookBacklog" ("webhookId", "setAsideAtMs", seq)`.execute(db);
    await sql`alter table webhook add column failures bigint not null default 0`.execute(db);
    await sql`update webhook set failures = attempts`.execute(db);
  },
};

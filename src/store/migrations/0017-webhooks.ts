import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const webhooks: Migration = {
  name: '0017-webhooks',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text not null` : sql`text collate "C" not null`;
    const ofWebhook = sql`${text} references webhook (id) on delete cascade`;
    await sql`create table webhook (
      id ${text} primary key, "ownerId" ${text} references account (id) on delete cascade,
      "allAccounts" smallint not null, url ${text}, kinds ${text}, secret ${text}, "createdAtMs" bigint not null,
      enabled smallint not null, attempts bigint not null default 0, "nextAttemptAtMs" bigint not null default 0,
      "failingSinceMs" bigint, "lastError" ${text} default '')`.execute(db);
    await sql`create index webhook_owner on webhook ("ownerId")`.execute(db);
    await sql`create index webhook_due on webhook (enabled, "nextAttemptAtMs")`.execute(db);
    await sql`create table "webhookCursor" (
      "webhookId" ${ofWebhook}, "accountId" ${text}, seq bigint not null,
      primary key ("webhookId", "accountId"))`.execute(db);
    await sql`create table "webhookDelivery" (
      id ${text} primary key, "webhookId" ${ofWebhook}, "accountId" ${text}, seq bigint not null, kind ${text},
      "atMs" bigint not null, attempts bigint not null, delivered smallint not null, status bigint not null,
      answer ${text}, "tookMs" bigint not null)`.execute(db);
    await sql`create index "webhookDelivery_newest" on "webhookDelivery" ("webhookId", "atMs", id)`.execute(db);
  },
};

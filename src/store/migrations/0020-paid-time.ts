/** Time that instances have paid ahead. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const paidTime: Migration = {
  name: '0020-paid-time',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`create table "paidTime" (
      "instanceId" ${text} not null primary key, "accountId" ${text} not null, "chargeMode" ${text} not null,
      units bigint not null, "priceMicros" bigint not null, "isPaid" integer not null, "anchorMs" bigint,
      "unitsBefore" bigint not null, "timeZone" ${text} not null, "endsAtMs" bigint, "dueAtMs" bigint,
      "firstEntryId" bigint not null
    )`.execute(db);
    await sql`create index paid_time_due on "paidTime" ("dueAtMs", "instanceId") where "dueAtMs" is not null`.execute(
      db,
    );
  },
};

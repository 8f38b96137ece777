/** Who may come to a port, links that open one, and when sessions of the gateway were opened, which gets each of them an id of its own. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

/** What a session of before was to last from its last use: it had been opened by then. */
const SESSION_LIFE_MS = 86_400_000;

export const portAccess: Migration = {
  name: '0004-port-access',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql.raw('text') : sql.raw('text collate "C"');
    const number = kind === 'sqlite' ? sql.raw('integer') : sql.raw('bigint');

    await sql`alter table instance add column "portAccess" ${text} not null default '{}'`.execute(db);

    await sql`create table "portShare" (
      id ${text} primary key, hash ${text} not null, "instanceId" ${text} not null, "accountId" ${text} not null, port ${number} not null,
      name ${text} not null, "createdAtMs" ${number} not null, "expiresAtMs" ${number} not null)`.execute(db);
    await sql`create unique index "portShare_hash" on "portShare" (hash)`.execute(db);
    await sql`create index "portShare_instance" on "portShare" ("instanceId", "createdAtMs")`.execute(db);
    await sql`create index "portShare_expiry" on "portShare" ("expiresAtMs")`.execute(db);

    await sql`alter table "gatewayGrant" add column id ${text} not null default ''`.execute(db);
    await sql`alter table "gatewayGrant" add column "openedAtMs" ${number} not null default 0`.execute(db);
    await sql`update "gatewayGrant" set id = substr(hash, 1, 32), "openedAtMs" = "expiresAtMs" - ${sql.lit(SESSION_LIFE_MS)}`.execute(
      db,
    );
    await sql`create unique index "gatewayGrant_id" on "gatewayGrant" (id)`.execute(db);
  },
};

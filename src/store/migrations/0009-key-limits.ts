/** Limits and last use of API keys, the key that opened a session, authorities of ssh. */
import { sql } from 'kysely';
import type { Migration } from '../db/migrate.ts';

export const keyLimits: Migration = {
  name: '0009-key-limits',
  async up(db, kind) {
    const text = kind === 'sqlite' ? sql`text` : sql`text collate "C"`;
    await sql`alter table "apiKey" add column prefix ${text} not null default ''`.execute(db);
    for (const column of ['scopes', 'addresses'])
      await sql`alter table "apiKey" add column ${sql.ref(column)} ${text}`.execute(db);
    for (const column of ['expiresAtMs', 'lastUsedAtMs'])
      await sql`alter table "apiKey" add column ${sql.ref(column)} bigint`.execute(db);
    await sql`alter table "gatewayGrant" add column "apiKeyId" ${text}
      references "apiKey" (id) on delete cascade`.execute(db);
    await sql`alter table "sshKey" add column kind ${text} not null default 'key'`.execute(db);
    await sql`create index "gatewayGrant_apiKey" on "gatewayGrant" ("apiKeyId")`.execute(db);
  },
};

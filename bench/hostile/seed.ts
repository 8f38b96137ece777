/** The data of the hostile account and of administrators, written in SQL: years of use at once. */
import { sql } from 'kysely';
import { HOUR_MS, MINUTE_MS } from '../../src/domain/kernel/durations.ts';
import { startServer } from '../../src/main/server.ts';
import type { Store } from '../../src/store/store.ts';
import { idOf, seed } from '../lib/seed.ts';
import { configOf, quietLog, type ServerSettings } from '../lib/settings.ts';

const INSTANCES = 900;
const LABELS = 32;
const AUDITED_FIELDS = ['ok', 'forbidden', 'not_found', 'field_value'];
const MICROS = 1_234;

export const rowsOf = {
  entries: 20_000,
  periods: 10_000,
  events: 20_000,
  operations: 20_000,
  audit: 20_000,
  priceChanges: 5_000,
};

/** Of `owner-0`; `owner-1` is the other account. */
export async function seedHostile(settings: ServerSettings, say: (text: string) => void): Promise<void> {
  await seed(settings.dataFolder, 2 * INSTANCES, say, { each: INSTANCES });
  const server = await startServer({ config: configOf(settings), log: quietLog });
  try {
    await seedBooks(server.store);
    await seedHistory(server.store);
  } finally {
    await server.stop();
  }
}

/** `i` counts from 0. */
const count = (rows: number) =>
  sql`with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${sql.lit(rows)})`;
const owner = idOf(sql`0`);
/** Each row in a minute of its own, the last one an hour ago. */
const endOf = (rows: number) => sql`(${sql.lit(Date.now() - HOUR_MS - rows * MINUTE_MS)} + i * ${sql.lit(MINUTE_MS)})`;
const subject = sql`'notebook-00000000-0000-4000-a000-00000000' || (1000 + i % 1000)`;

async function seedBooks(store: Store): Promise<void> {
  const { entries, periods } = rowsOf;
  const at = endOf(entries);
  const from = endOf(periods);
  await store.write(async (tx) => {
    await sql`${count(periods)} insert into "usagePeriod" (id, "accountId", "subjectId", "subjectName", meter, state,
        "regionId", "typeId", "priceMicros", quantity, "unitMs", "openedAtMs", "closedAtMs", "openSeq", "closeSeq",
        "chargedUntilMs", "chargedMicros", carry, "isCharging", labels)
      select i + 1, ${owner}, ${subject}, 'bench ' || (i % 50), 'compute', 'charged', 'region', 'type', 1000000, 1,
        ${sql.lit(HOUR_MS)}, ${from}, ${from} + ${sql.lit(MINUTE_MS)}, 1, 2, ${from} + ${sql.lit(MINUTE_MS)},
        ${sql.lit(MICROS)}, 0, 0, '{"team":"t' || (i % 100) || '","project":"p' || (i % 997) || '"}' from n`.execute(
      tx,
    );
    await sql`${count(entries)} insert into entry ("accountId", "atMs", kind, "fromLedger", "toLedger", "amountMicros",
        "grantId", "subjectId", meter, "periodId", "hourMs", "fromMs", "untilMs", reason, "byAccountId")
      select ${owner}, ${at}, 'charge', 'cash', 'revenue', ${sql.lit(MICROS)}, '', ${subject}, 'compute',
        1 + i % ${sql.lit(periods)}, ${at} - ${at} % ${sql.lit(HOUR_MS)}, ${at}, ${at} + ${sql.lit(MINUTE_MS)}, '', ''
      from n`.execute(tx);
    await sql`update account set "balanceMicros" = 1000000000 where id = ${owner}`.execute(tx);
  });
}

async function seedHistory(store: Store): Promise<void> {
  const { events, operations, audit, priceChanges } = rowsOf;
  const busy = sql`(select id from instance where "ownerId" = ${owner} order by id limit 1)`;
  await store.write(async (tx) => {
    await sql`${count(events)} insert into event ("accountId", seq, "atMs", kind, "subjectId", data)
      select ${owner}, i + 1, ${endOf(events)}, 'instance.running', ${busy}, '{"name":"bench"}' from n`.execute(tx);
    await sql`update account set "eventSeq" = ${events} where id = ${owner}`.execute(tx);
    await sql`${count(operations)} insert into operation (id, "accountId", "subjectId", generation, kind, "archivedAtMs", operation)
      select ${busy} || '.' || (100 + i), ${owner}, ${busy}, 100 + i, 'stop', ${endOf(operations)}, instance.operation
      from n cross join (select operation from instance limit 1) instance`.execute(tx);
    await sql`${count(audit)} insert into audit (position, hash, "atMs", "accountId", username, credential, "credentialId",
        address, "userAgent", route, subjects, outcome, count, "requestId")
      select i + 1 + coalesce((select max(position) from audit), 0), '', ${endOf(audit)}, ${owner}, 'owner-0', 'token', '',
        '127.0.0.1', 'bench', 'launch', '[]', ${sql.raw(
          `case i % ${AUDITED_FIELDS.length} ${AUDITED_FIELDS.map((text, index) => `when ${index} then '${text}'`).join(' ')} end`,
        )}, 1, 'bench' from n`.execute(tx);
    await sql`${count(priceChanges)} insert into "priceChange" ("fromMs", "regionId", "typeId", prices, "byAccountId", "isScheduled")
      select ${endOf(priceChanges)}, changed."regionId", changed."typeId", changed.prices, '', 0
      from n cross join (select * from "priceChange" order by id limit 1) changed`.execute(tx);
    await sql`${count(LABELS * INSTANCES)} insert into label ("subjectId", key, value, "ownerId")
      select owned.id, 'key-' || (i % ${sql.lit(LABELS)}), 'value-' || i, ${owner} from n
      join (select id, row_number() over (order by id) - 1 as place from instance where "ownerId" = ${owner}) owned
        on owned.place = i / ${sql.lit(LABELS)}`.execute(tx);
  });
}

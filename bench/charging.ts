/**
 * Charging of 100,000 running instances: a line each, balances moved, the ledger checked. Against
 * the same work as bare SQL on the same database in the same round.
 */
import { join } from 'node:path';
import { sql } from 'kysely';
import { makeChargeUsage } from '../src/control/money/charge-usage.ts';
import { makeMetering } from '../src/control/money/metering.ts';
import { realTime } from '../src/control/kernel/time.ts';
import { regionId } from '../src/domain/kernel/ids.ts';
import { HOUR_MS } from '../src/domain/kernel/durations.ts';
import { openStore } from '../src/store/open.ts';
import type { Db, Store } from '../src/store/store.ts';
import { instanceRow, regionRow } from '../test/db/store/rows.ts';
import { startPostgres } from '../test/fixtures/postgres-server.ts';
import type { Bench } from './bench.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { quietLog } from './lib/settings.ts';

const ASKED_RATIO = 5;
const ASKED_HOLD_MS = 20;
const ACCOUNTS = 1_000;
const PER_HOUR = 20_000;
const BALANCE = 1_000_000_000;
const REGION = regionId('region');
/** Full hours, so that each round inserts a line per instance. */
const FIRST_MS = 500_000 * HOUR_MS;

interface Sample {
  bareMs: number;
  ownMs: number;
  repeatedMs: number;
  repeatedRows: number;
  longestHoldMs: number;
}

async function seed(store: Store, rows: number): Promise<void> {
  const template = instanceRow({ id: 'template', ownerId: 'template', regionId: REGION });
  const names = Object.keys(template);
  await store.write(async (tx) => {
    await tx
      .insertInto('region')
      .values(regionRow({ id: REGION }))
      .execute();
    await sql`with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${sql.lit(ACCOUNTS)})
      insert into account (id, username, email, "passwordHash", roles, "createdAtMs", disabled, "balanceMicros")
      select 'a' || i, 'a' || i, '', '', '[]', 0, 0, ${sql.lit(BALANCE)} from n`.execute(tx);
    await sql`insert into account (id, username, email, "passwordHash", roles, "createdAtMs", disabled)
      values ('template', 'template', '', '', '[]', 0, 0)`.execute(tx);
    await tx
      .insertInto('instance')
      .values({ ...template, dueAtMs: null })
      .execute();
    const ownerOf = sql`'a' || (i % ${sql.lit(ACCOUNTS)})`;
    const values = names.map((name) =>
      name === 'id' ? sql`'i' || i` : name === 'ownerId' ? ownerOf : sql.ref(`instance.${name}`),
    );
    await sql`with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${sql.lit(rows)})
      insert into instance (${sql.join(names.map((name) => sql.ref(name)))})
      select ${sql.join(values)} from n cross join instance where instance.id = 'template'`.execute(tx);
    await sql`with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${sql.lit(rows)})
      insert into "usagePeriod" ("accountId", "subjectId", "subjectName", meter, state, "regionId", "typeId",
        "priceMicros", quantity, "unitMs", "openedAtMs", "openSeq", "chargedUntilMs", carry, "isCharging")
      select ${ownerOf}, 'i' || i, 'bench', 'compute', 'charged', ${REGION}, 't', ${sql.lit(PER_HOUR)}, 1,
        ${sql.lit(HOUR_MS)}, ${sql.lit(FIRST_MS)}, 1, ${sql.lit(FIRST_MS)}, 0, 1 from n`.execute(tx);
  });
}

/** Zero for a ledger in order: what the balances hold less what the entries moved. */
async function difference(db: Db, opening: number): Promise<number> {
  const { rows } = await sql<{ micros: number }>`select
    (select sum("balanceMicros") from account) + (select coalesce(sum("amountMicros"), 0) from entry)
    - ${opening} as micros`.execute(db);
  return Number(rows[0]?.micros);
}

async function bare(store: Store, untilMs: number): Promise<void> {
  await store.write(async (tx) => {
    await sql`insert into entry ("accountId", "atMs", kind, "fromLedger", "toLedger", "amountMicros", "grantId",
        "subjectId", meter, "periodId", "hourMs", "fromMs", "untilMs", reason, "byAccountId")
      select "accountId", "chargedUntilMs", 'charge', 'cash', 'revenue', ${sql.lit(PER_HOUR)}, '', "subjectId", meter,
        id, "chargedUntilMs", "chargedUntilMs", ${untilMs}, '', '' from "usagePeriod" where "isCharging" = 1`.execute(
      tx,
    );
    await sql`update "usagePeriod" set "chargedUntilMs" = ${untilMs},
      "chargedMicros" = "chargedMicros" + ${sql.lit(PER_HOUR)} where "isCharging" = 1`.execute(tx);
    await sql`update account set "balanceMicros" = "balanceMicros" - spent.micros
      from (select "accountId", count(*) * ${sql.lit(PER_HOUR)} as micros from "usagePeriod" where "isCharging" = 1
        group by "accountId") as spent where spent."accountId" = account.id`.execute(tx);
  });
}

/** Longest span in which a list call of this process would have waited. */
async function longestHoldMs(work: () => Promise<void>): Promise<number> {
  let longestMs = 0;
  let last = performance.now();
  let goesOn = true;
  const watch = (): void => {
    const now = performance.now();
    longestMs = Math.max(longestMs, now - last);
    last = now;
    if (goesOn) setImmediate(watch);
  };
  setImmediate(watch);
  await work();
  goesOn = false;
  return longestMs;
}

/** Charges an hour by bare SQL, the next by Berth, and once more; `rounds` times. */
async function measure(store: Store, rows: number, rounds: number): Promise<Sample[]> {
  await seed(store, rows);
  let nowMs = FIRST_MS;
  const time = { ...realTime, now: () => nowMs, elapsed: () => nowMs };
  const drivers = { regionId: REGION, health: { answers: true, probe: null, text: '' } };
  const regions = { all: () => [drivers], of: () => drivers };
  const metering = makeMetering({ time, regions, isBilled: true });
  const charge = () => makeChargeUsage({ store, regions, metering, log: quietLog, time })();
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const startedMs = performance.now();
    await work();
    return performance.now() - startedMs;
  };
  const check = async (): Promise<void> => {
    const wrong = await difference(store.read, ACCOUNTS * BALANCE);
    if (wrong !== 0) throw new Error(`the ledger is off by ${wrong} micro-dollars`);
  };
  const lines = async (): Promise<number> => {
    const { rows: counted } = await sql<{ lines: number }>`select count(*) as lines from entry`.execute(store.read);
    return Number(counted[0]?.lines);
  };
  const samples: Sample[] = [];
  for (let round = 0; round < rounds; round++) {
    nowMs += HOUR_MS;
    const bareMs = await timed(async () => {
      await bare(store, nowMs);
      await check();
    });
    nowMs += HOUR_MS;
    metering.saw(REGION, nowMs);
    let holdMs = 0;
    const ownMs = await timed(async () => {
      holdMs = await longestHoldMs(charge);
      await check();
    });
    const before = await lines();
    if (before !== (round + 1) * 2 * rows) throw new Error(`there are ${before} lines after round ${round + 1}`);
    const repeatedMs = await timed(charge);
    samples.push({ bareMs, ownMs, repeatedMs, repeatedRows: (await lines()) - before, longestHoldMs: holdMs });
  }
  return samples;
}

export const charging: Bench = {
  title: 'charging running instances: a line each, balances moved, the ledger checked',
  async run({ folder, flags, say }) {
    const isShort = flags.has('--short');
    const [rows, rounds] = isShort ? [10_000, 2] : [100_000, 7];
    const postgres = await startPostgres();
    try {
      const measured: [string, Sample[]][] = [];
      for (const [name, where] of [
        ['SQLite', { file: join(folder, 'charging.sqlite') }],
        ['PostgreSQL', { url: postgres.urlOf('postgres') }],
      ] as const) {
        say(`  ${name}`);
        const store = await openStore({ ...where, log: quietLog });
        try {
          measured.push([name, await measure(store, rows, rounds)]);
        } finally {
          await store.stop();
        }
      }
      const ratios = (samples: Sample[]): number[] => samples.map(({ bareMs, ownMs }) => ownMs / bareMs);
      return {
        table: [
          ['store', 'bare SQL ms', 'Berth ms', 'ratio in a round', 'longest hold ms', 'repeated ms', 'rows of it'],
          ...measured.map(([name, samples]) => [
            name,
            spread(samples.map(({ bareMs }) => bareMs)),
            spread(samples.map(({ ownMs }) => ownMs)),
            spread(ratios(samples)),
            spread(samples.map((one) => one.longestHoldMs)),
            spread(samples.map(({ repeatedMs }) => repeatedMs)),
            String(Math.max(...samples.map(({ repeatedRows }) => repeatedRows))),
          ]),
        ],
        verdicts: measured.flatMap(([name, samples]) => {
          const ratio = median(ratios(samples));
          const holdMs = median(samples.map((one) => one.longestHoldMs));
          const repeated = Math.max(...samples.map(({ repeatedRows }) => repeatedRows));
          return [
            {
              asked: `${name}: at most ${ASKED_RATIO} × bare SQL`,
              measured: `${shown(ratio)} ×`,
              met: ratio <= ASKED_RATIO,
            },
            {
              asked: `${name}: holds a list call back for at most ${ASKED_HOLD_MS} ms`,
              measured: `${shown(holdMs)} ms`,
              met: holdMs <= ASKED_HOLD_MS,
            },
            { asked: `${name}: repeating writes 0 rows`, measured: String(repeated), met: repeated === 0 },
          ];
        }),
        notes: [
          `${rows.toLocaleString('en')} instances of ${ACCOUNTS.toLocaleString('en')} accounts, an hour each round. Bare SQL: the same lines, periods and balances in one transaction of three statements, at a known price. Hold: the longest time in which the process that charges ran nothing else.`,
        ],
      };
    } finally {
      await postgres.stop();
    }
  },
};

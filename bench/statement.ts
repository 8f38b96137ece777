/**
 * The statement of a month with a million usage periods of one account, and its second page of
 * resources. Floor: the bare sums of the same rows on the same database in the same round.
 */
import { join } from 'node:path';
import { sql } from 'kysely';
import { realTime } from '../src/control/kernel/time.ts';
import { makeStatements } from '../src/control/money/statement.ts';
import { HOUR_MS } from '../src/domain/kernel/durations.ts';
import { openStore } from '../src/store/open.ts';
import type { Db, Store } from '../src/store/store.ts';
import { startPostgres } from '../test/fixtures/postgres-server.ts';
import type { Bench } from './bench.ts';
import { median, shown, spread } from './lib/numbers.ts';
import { quietLog } from './lib/settings.ts';

const ASKED_MS = 1_000;
const RESOURCES = 5_000;
const MONTH = '2026-11';
const FIRST_MS = Date.UTC(2026, 10, 1);
const MONTH_MS = 30 * 24 * HOUR_MS;
const NOW_MS = FIRST_MS + MONTH_MS + HOUR_MS;
const MICROS = 1_234;
const AT_ONCE = 50_000;

interface Sample {
  bareMs: number;
  statementMs: number;
  longestHoldMs: number;
}

const caller = { accountId: 'ann', username: 'ann', email: '', roles: ['user'], sessionId: null, scopes: null };

/** Charged periods of some minutes with a line each, evenly over the month. */
async function seed(store: Store, rows: number, say: (text: string) => void): Promise<void> {
  const spanMs = Math.floor(MONTH_MS / rows);
  await store.write((tx) =>
    sql`insert into account (id, username, email, "passwordHash", roles, "createdAtMs", disabled, "balanceMicros")
      values ('ann', 'ann', '', '', '[]', 0, 0, ${-rows * MICROS})`.execute(tx),
  );
  for (let from = 0; from < rows; from += AT_ONCE) {
    const until = Math.min(rows, from + AT_ONCE);
    const at = sql`(${sql.lit(FIRST_MS)} + i * cast(${sql.lit(spanMs)} as bigint))`;
    const subject = sql`'notebook-00000000-0000-4000-a000-00000' || (i % ${sql.lit(RESOURCES)})`;
    await store.write(async (tx) => {
      await sql`with recursive n(i) as (select ${sql.lit(from)} union all select i + 1 from n where i + 1 < ${sql.lit(until)})
        insert into "usagePeriod" (id, "accountId", "subjectId", "subjectName", meter, state, "regionId", "typeId",
          "priceMicros", quantity, "unitMs", "openedAtMs", "closedAtMs", "openSeq", "closeSeq", "chargedUntilMs",
          "chargedMicros", carry, "isCharging")
        select i + 1, 'ann', ${subject}, 'bench', 'compute', 'charged', 'region', 'type', 1000000, 1,
          ${sql.lit(HOUR_MS)}, ${at}, ${at} + ${sql.lit(spanMs)}, 1, 2, ${at} + ${sql.lit(spanMs)}, ${sql.lit(MICROS)}, 0, 0
        from n`.execute(tx);
      await sql`with recursive n(i) as (select ${sql.lit(from)} union all select i + 1 from n where i + 1 < ${sql.lit(until)})
        insert into entry ("accountId", "atMs", kind, "fromLedger", "toLedger", "amountMicros", "grantId",
          "subjectId", meter, "periodId", "hourMs", "fromMs", "untilMs", reason, "byAccountId")
        select 'ann', ${at}, 'charge', 'cash', 'revenue', ${sql.lit(MICROS)}, '', ${subject}, 'compute', i + 1,
          ${at} - ${at} % ${sql.lit(HOUR_MS)}, ${at}, ${at} + ${sql.lit(spanMs)}, '', '' from n`.execute(tx);
    });
    if (from > 0 && from % (AT_ONCE * 4) === 0) say(`    ${from.toLocaleString('en')} periods`);
  }
  // PostgreSQL does so by itself after a while.
  if (store.kind === 'postgres') await sql`vacuum analyze`.execute(store.read);
}

async function bare(db: Db, rows: number): Promise<void> {
  const untilMs = FIRST_MS + MONTH_MS;
  const { rows: charged } = await sql<{ micros: number }>`select sum("amountMicros") as micros from entry
    where "accountId" = 'ann' and "atMs" >= ${FIRST_MS} and "atMs" < ${untilMs}`.execute(db);
  const { rows: periods } = await sql<{ ms: number }>`select sum("closedAtMs" - "openedAtMs") as ms
    from "usagePeriod" where "accountId" = 'ann' and meter = 'compute' and state = 'charged'
      and "closedAtMs" > ${FIRST_MS} and "openedAtMs" < ${untilMs}`.execute(db);
  if (Number(charged[0]?.micros) !== rows * MICROS) throw new Error('the bare sum of the entries is wrong');
  if (!Number(periods[0]?.ms)) throw new Error('the bare sum of the periods is wrong');
}

async function timed(work: () => Promise<unknown>): Promise<{ tookMs: number; longestHoldMs: number }> {
  let [longestHoldMs, last, goesOn] = [0, performance.now(), true];
  const watch = (): void => {
    const now = performance.now();
    longestHoldMs = Math.max(longestHoldMs, now - last);
    last = now;
    if (goesOn) setImmediate(watch);
  };
  setImmediate(watch);
  const beganMs = performance.now();
  await work();
  goesOn = false;
  return { tookMs: performance.now() - beganMs, longestHoldMs };
}

async function measure(store: Store, rows: number, rounds: number): Promise<Sample[]> {
  const statements = makeStatements({ store, time: { ...realTime, now: () => NOW_MS } });
  const samples: Sample[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const floor = await timed(() => bare(store.read, rows));
    const own = await timed(async () => {
      const pager = { currentPage: 2, pageSize: 100 };
      const found = await statements.page(caller, { month: MONTH, timeZone: 'UTC' }, pager);
      if (found.chargesMicros !== rows * MICROS) throw new Error(`the statement charges ${found.chargesMicros}`);
      if (found.resources.length !== pager.pageSize) throw new Error('the page of resources is not full');
      if (found.balances[0]?.openingMicros !== 0) throw new Error('the opening balance is wrong');
    });
    const sample = { bareMs: floor.tookMs, statementMs: own.tookMs, longestHoldMs: own.longestHoldMs };
    // The first round warms the caches.
    if (round > 0) samples.push(sample);
  }
  return samples;
}

export const statement: Bench = {
  title: 'POST /api/billing/statement over a million usage periods of an account, without HTTP',
  async run({ folder, flags, say }) {
    const isShort = flags.has('--short');
    const [rows, rounds] = isShort ? [100_000, 2] : [1_000_000, 7];
    const postgres = await startPostgres();
    try {
      const measured: [string, Sample[]][] = [];
      for (const [name, where] of [
        ['SQLite', { file: join(folder, 'statement.sqlite') }],
        ['PostgreSQL', { url: postgres.urlOf('postgres') }],
      ] as const) {
        say(`  ${name}`);
        const store = await openStore({ ...where, log: quietLog });
        try {
          await seed(store, rows, say);
          measured.push([name, await measure(store, rows, rounds)]);
        } finally {
          await store.stop();
        }
      }
      return {
        table: [
          ['store', 'bare sums ms', 'statement ms', 'ratio in a round', 'longest hold ms'],
          ...measured.map(([name, samples]) => [
            name,
            spread(samples.map(({ bareMs }) => bareMs)),
            spread(samples.map(({ statementMs }) => statementMs)),
            spread(samples.map((one) => one.statementMs / one.bareMs)),
            spread(samples.map((one) => one.longestHoldMs)),
          ]),
        ],
        verdicts: measured.map(([name, samples]) => {
          const tookMs = median(samples.map(({ statementMs }) => statementMs));
          return { asked: `${name}: under ${ASKED_MS} ms`, measured: `${shown(tookMs)} ms`, met: tookMs < ASKED_MS };
        }),
        notes: [
          `${rows.toLocaleString('en')} charged periods of ${RESOURCES.toLocaleString('en')} resources in a month, a line of the ledger each; the second page of a hundred resources. Bare sums: the amounts of all lines, and the time of all periods. Hold: the longest time in which the process ran nothing else. One round more warms the caches.`,
        ],
      };
    } finally {
      await postgres.stop();
    }
  },
};

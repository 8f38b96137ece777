/** Pages of entries, usage periods and audit records, which read a bounded slice at once. */
import { sql, type RawBuilder } from 'kysely';
import { expect, test } from 'vitest';
import { auditPage, type AuditFilter } from '../../../src/store/tables/audit.ts';
import { entryPage, periodPage, type EntryFilter, type PeriodFilter } from '../../../src/store/tables/book-pages.ts';
import type { PageSpan } from '../../../src/store/tables/sliced-page.ts';
import type { Db, Store } from '../../../src/store/store.ts';
import { onBothEngines, onEngine } from '../../fixtures/store.ts';
import { billingRows } from './billing-rows.ts';
import { howSqliteReads } from './query-plan.ts';
import { insertOwners } from './rows.ts';

const ROWS = 25_000;
const span = (offset: number) => ({ limit: 20, offset, maxTotal: 10_000 });
interface Case {
  ask: (db: Db, span: PageSpan) => Promise<{ rows: object[]; total: number }>;
  matches: (i: number) => boolean;
}

const all = (): boolean => true;
const none = (): boolean => false;
const every = (step: number) => (i: number) => i % step === 0;
const entries = (filter: EntryFilter, matches: Case['matches']): Case => ({
  ask: (db, at) => entryPage(db, 'ann', filter, at),
  matches,
});
const periods = (filter: PeriodFilter, matches: Case['matches']): Case => ({
  ask: (db, at) => periodPage(db, 'ann', filter, at),
  matches,
});
const records = (filter: AuditFilter, matches: Case['matches']): Case => ({
  ask: (db, at) => auditPage(db, filter, at),
  matches,
});

/** Three rows of each millisecond; every third, hundredth and thousandth row is marked. */
const cases: Record<string, Case> = {
  'all entries': entries({}, all),
  'entries of no kind': entries({ kind: 'expiry' }, none),
  'entries of a rare kind': entries({ kind: 'refund' }, every(1_000)),
  'entries of a resource': entries({ subjectId: 'a' }, every(100)),
  'entries of a meter and a time': entries(
    { meter: 'volume', fromMs: 2_000, untilMs: 8_000 },
    (i) => every(3)(i) && i >= 6_000 && i < 24_000,
  ),
  'all periods': periods({}, all),
  'periods of no state': periods({ state: 'lost' }, none),
  'periods of a rare state': periods({ state: 'gap' }, every(1_000)),
  'periods of a resource': periods({ subjectId: 'a' }, every(100)),
  'periods of a meter': periods({ meter: 'volume' }, every(3)),
  'periods of a time': periods({ fromMs: 2_000, untilMs: 8_000 }, (i) => i >= 6_003 && i < 24_000),
  'all records': records({}, all),
  'records of no route': records({ route: 'none' }, none),
  'records of an account': records({ accountId: 'a' }, every(100)),
  'refused records': records({ outcome: 'forbidden' }, every(1_000)),
  'records of a resource': records({ subjectId: 'a' }, every(3)),
  'records without a route that went well': records({ onlyRefusedOf: ['often'] }, (i) => every(100)(i)),
  'records of a time': records({ fromMs: 2_000, toMs: 8_000 }, (i) => i >= 6_000 && i < 24_000),
};

async function fill(store: Store): Promise<void> {
  const numbers = sql`n(i) as (select 1 union all select i + 1 from n where i < ${sql.lit(ROWS)})`;
  const insert = (tx: Db, table: string, row: object): Promise<unknown> =>
    sql`with recursive ${numbers} insert into ${sql.table(table)}
      (${sql.join(Object.keys(row).map((name) => sql.ref(name)))})
      select ${sql.join(Object.values(row).map((value: unknown) => (isRaw(value) ? value : sql.lit(value))))} from n`.execute(
      tx,
    );
  const marked = (step: number, yes: string, no: string) =>
    sql`case when i % ${sql.lit(step)} = 0 then ${sql.lit(yes)} else ${sql.lit(no)} end`;
  const [i, atMs] = [sql`i`, sql`i / 3`];
  await store.write(async (tx) => {
    await insertOwners(tx, 'region', 'ann');
    const shared = { id: i, subjectId: marked(100, 'a', 'b'), meter: marked(3, 'volume', 'compute') };
    const { entry, usagePeriod } = billingRows;
    await insert(tx, 'entry', {
      ...entry,
      ...shared,
      atMs,
      hourMs: i,
      periodId: i,
      kind: marked(1_000, 'refund', 'charge'),
    });
    const closing = { openedAtMs: atMs, closedAtMs: sql`i / 3`, chargedUntilMs: 1, closeSeq: 1, isCharging: 0 };
    await insert(tx, 'usagePeriod', { ...usagePeriod, ...shared, ...closing, state: marked(1_000, 'gap', 'charged') });
    await insert(tx, 'audit', {
      position: i,
      hash: '',
      atMs,
      accountId: marked(100, 'a', 'b'),
      username: '',
      credential: '',
      credentialId: '',
      address: '',
      userAgent: '',
      route: marked(100, 'seldom', 'often'),
      subjects: '[]',
      outcome: marked(1_000, 'forbidden', 'ok'),
      count: 1,
      requestId: '',
    });
    await sql`insert into "auditSubject" ("subjectId", position)
      select 'a', position from audit where position % 3 = 0`.execute(tx);
  });
}

const isRaw = (value: unknown): value is RawBuilder<unknown> => typeof value === 'object' && value !== null;

onBothEngines('a page of rows without a bound', { postgres: 'always' }, (open) => {
  test('has the rows that match and their number', async () => {
    const store = await open();
    await fill(store);
    const numbers = Array.from({ length: ROWS }, (_, at) => ROWS - at);
    for (const [name, { ask, matches }] of Object.entries(cases)) {
      const found = numbers.filter(matches);
      for (const offset of [0, 5, 9_990, 12_345, 24_990, 90_000]) {
        const { rows, total } = await ask(store.read, span(offset));
        const ids = rows.map((row) => Number('position' in row ? row.position : 'id' in row ? row.id : NaN));
        expect(ids, `${name} from ${offset}`).toEqual(found.slice(offset, offset + 20));
        expect(total, name).toBe(Math.min(10_000, found.length));
      }
    }
  });
});

onEngine('sqlite', 'a page of rows without a bound', (open) => {
  test.each(Object.entries(cases))('reads %s within the bounds of a slice', async (_name, { ask }) => {
    const store = await open();
    await fill(store);
    const seen: Promise<string[]>[] = [];
    const observed = store.read.withPlugin({
      transformQuery({ node, queryId }) {
        const compiled = store.read.getExecutor().compileQuery(node, queryId);
        seen.push(howSqliteReads(store, (db) => db.executeQuery(compiled)));
        return node;
      },
      transformResult: async ({ result }) => result,
    });
    await ask(observed, span(90_000));
    const [first, ...others] = (await Promise.all(seen)).flat();
    expect(first).toMatch(/^SEARCH (?:entry|usagePeriod) USING COVERING INDEX \w+_account |^SCAN audit$/);
    const bounded = /^SEARCH (?:entry|usagePeriod|audit) USING .*\b(?:atMs|openedAtMs|rowid|position)[<>]\?.*\)$/;
    const probe = /^CORRELATED SCALAR|^SEARCH subject .*\((?:subjectId|position)=\? AND (?:subjectId|position)=\?\)$/;
    expect(others.filter((line) => !bounded.test(line) && !probe.test(line))).toEqual([]);
  });
});

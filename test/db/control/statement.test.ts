/** Statements and usage over periods and entries written by the test: sums to the micro-dollar. */
import { expect, test } from 'vitest';
import { makeStatements } from '../../../src/control/billing/statement.ts';
import { makeUsage, type UsageRequest } from '../../../src/control/billing/usage-report.ts';
import { HOUR_MS, type Meter, type MeterState } from '../../../src/domain/meter.ts';
import { realTime } from '../../../src/control/base/time.ts';
import { accrue } from '../../../src/domain/charge.ts';
import { plainEntry, writeEntries } from '../../../src/store/tables/ledger.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { accountRow } from '../store/rows.ts';

const DAY_MS = 24 * HOUR_MS;
const NOVEMBER = Date.UTC(2026, 10, 1);
const DECEMBER = Date.UTC(2026, 11, 1);
const NOW = Date.UTC(2026, 11, 20);
const pager = { currentPage: 1, pageSize: 100 };

const callerOf = (accountId: string) => ({
  accountId,
  username: accountId,
  email: '',
  roles: ['user'],
  sessionId: null,
  scopes: null,
});
const ann = callerOf('ann');

interface Lived {
  subjectId: string;
  state?: MeterState;
  meter?: Meter;
  fromMs: number;
  untilMs: number | null;
  typeId?: string;
  source?: 'cash' | 'voucher';
  labels?: object;
  quantity?: number;
  accountId?: string;
}

/** Odd, so that each hour leaves a carry. */
const PER_HOUR = 1_234_567;

async function live(store: Store, lived: Lived): Promise<number> {
  const { state = 'charged', meter = 'compute', fromMs, untilMs, source = 'cash', quantity = 1 } = lived;
  const accountId = lived.accountId ?? 'ann';
  const priceMicros = state === 'charged' ? PER_HOUR : 0;
  const unitMs = meter === 'compute' ? HOUR_MS : 30 * DAY_MS;
  const until = untilMs ?? NOW;
  const { pieces, carry } = accrue(
    { priceMicros: BigInt(priceMicros), quantity, unitMs, chargedUntilMs: fromMs, carry: 0n },
    until,
  );
  const chargedMicros = pieces.reduce((sum, { amountMicros }) => sum + Number(amountMicros), 0);
  await store.write(async (tx) => {
    const { id } = await tx
      .insertInto('usagePeriod')
      .values({
        accountId,
        subjectId: lived.subjectId,
        subjectName: `name of ${lived.subjectId}`,
        meter,
        state,
        regionId: 'here',
        typeId: lived.typeId ?? '',
        priceMicros,
        quantity,
        unitMs,
        openedAtMs: fromMs,
        closedAtMs: untilMs,
        openSeq: 1,
        closeSeq: untilMs === null ? null : 2,
        chargedUntilMs: until,
        chargedMicros,
        carry: Number(carry),
        isCharging: 0,
        labels: lived.labels === undefined ? null : JSON.stringify(lived.labels),
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    const of = {
      accountId,
      kind: 'charge',
      fromLedger: source,
      toLedger: 'revenue',
      subjectId: lived.subjectId,
      meter,
    };
    const entries = pieces.map(({ amountMicros, ...piece }) => ({
      ...plainEntry,
      ...of,
      ...piece,
      atMs: piece.fromMs,
      periodId: id,
      amountMicros: Number(amountMicros),
    }));
    for (let at = 0; at < entries.length; at += 500) await writeEntries(tx, entries.slice(at, at + 500));
    await move(tx, accountId, source, -chargedMicros);
  });
  return chargedMicros;
}

const columnOf = { cash: 'balanceMicros', voucher: 'voucherMicros', credit: 'creditMicros' } as const;

const move = (tx: Store['read'], accountId: string, ledger: keyof typeof columnOf, micros: number) =>
  tx
    .updateTable('account')
    .set((eb) => ({ [columnOf[ledger]]: eb(columnOf[ledger], '+', micros) }))
    .where('id', '=', accountId)
    .execute();

async function pay(
  store: Store,
  entry: { atMs: number; kind: string; from: string; to: string; micros: number; subjectId?: string },
) {
  const { atMs, kind, from, to, micros, subjectId = '' } = entry;
  await store.write(async (tx) => {
    const meter = subjectId === '' ? '' : 'compute';
    await writeEntries(tx, [
      {
        ...plainEntry,
        accountId: 'ann',
        atMs,
        kind,
        fromLedger: from,
        toLedger: to,
        amountMicros: micros,
        subjectId,
        meter,
      },
    ]);
    for (const ledger of ['cash', 'voucher', 'credit'] as const) {
      if (ledger === to) await move(tx, 'ann', ledger, micros);
      if (ledger === from) await move(tx, 'ann', ledger, -micros);
    }
  });
}

async function booksOf(store: Store) {
  for (const id of ['ann', 'bob'])
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(accountRow({ id, username: id, email: '' }))
        .execute(),
    );
  await pay(store, {
    atMs: NOVEMBER - 40 * DAY_MS,
    kind: 'deposit',
    from: 'deposits',
    to: 'cash',
    micros: 5_000_000_000,
  });
  await pay(store, { atMs: NOVEMBER + 1, kind: 'grant', from: 'grants', to: 'voucher', micros: 900_000_000 });
  await pay(store, {
    atMs: NOVEMBER + DAY_MS,
    kind: 'charge',
    from: 'cash',
    to: 'revenue',
    micros: 70_000_001,
    subjectId: 'i-paid',
  });
  await pay(store, {
    atMs: DECEMBER + DAY_MS,
    kind: 'refund',
    from: 'revenue',
    to: 'cash',
    micros: 20_000_003,
    subjectId: 'i-paid',
  });
  await pay(store, { atMs: DECEMBER + 2 * DAY_MS, kind: 'expiry', from: 'voucher', to: 'expired', micros: 11 });
  const time = { now: () => NOW, after: realTime.after };
  return { statements: makeStatements({ store, time }), usage: makeUsage({ store, time }) };
}

const month = (name: string, timeZone = 'UTC') => ({ month: name, timeZone });

onBothEngines('statements', (open) => {
  test('opening balance and movements give the closing balance, months join, and the last is the balance of now', async () => {
    const store = await open();
    const { statements } = await booksOf(store);
    await live(store, { subjectId: 'i-1', fromMs: NOVEMBER - 3 * DAY_MS - 17, untilMs: NOVEMBER + 5 * DAY_MS + 1_234 });
    await live(store, { subjectId: 'i-2', fromMs: NOVEMBER + 90_000, untilMs: DECEMBER + 7_777, source: 'voucher' });
    await live(store, { subjectId: 'v-1', meter: 'volume', quantity: 500, fromMs: NOVEMBER - DAY_MS, untilMs: null });
    for (const timeZone of ['UTC', 'America/New_York', 'Asia/Kolkata']) {
      let closing: unknown = null;
      for (const name of ['2026-08', '2026-09', '2026-10', '2026-11', '2026-12']) {
        const found = await statements.page(ann, month(name, timeZone), pager);
        for (const { ledger, openingMicros, closingMicros } of found.balances) {
          const moved = found.movements.filter((one) => one.ledger === ledger);
          expect(openingMicros + moved.reduce((sum, one) => sum + one.amountMicros, 0)).toBe(closingMicros);
        }
        const openings = found.balances.map(({ openingMicros }) => openingMicros);
        expect(openings).toEqual(closing ?? [0, 0, 0]);
        closing = found.balances.map(({ closingMicros }) => closingMicros);
        const lines = found.resources.reduce((sum, { amountMicros }) => sum + amountMicros, 0);
        expect([name, lines]).toEqual([name, found.chargesMicros]);
        expect(found.meters.reduce((sum, { amountMicros }) => sum + amountMicros, 0)).toBe(found.chargesMicros);
      }
      const { balanceMicros, voucherMicros, creditMicros } = await store.read
        .selectFrom('account')
        .selectAll()
        .where('id', '=', 'ann')
        .executeTakeFirstOrThrow();
      expect(closing).toEqual([balanceMicros, voucherMicros, creditMicros]);
    }
  });

  test('a line has the time by state, the quantity, and what was charged in the month alone', async () => {
    const store = await open();
    const { statements } = await booksOf(store);
    const spent = await live(store, {
      subjectId: 'i-1',
      typeId: 't',
      fromMs: NOVEMBER,
      untilMs: NOVEMBER + 90 * 60_000,
    });
    await live(store, {
      subjectId: 'i-1',
      state: 'waiting',
      typeId: 't',
      fromMs: NOVEMBER - 500,
      untilMs: NOVEMBER + 700,
    });
    await live(store, { subjectId: 'v-1', meter: 'volume', quantity: 10, fromMs: NOVEMBER - DAY_MS, untilMs: null });
    const { resources, meters, totalResources } = await statements.page(ann, month('2026-11'), pager);
    expect(totalResources).toBe(3);
    expect(resources[0]).toMatchObject({
      subjectId: 'i-1',
      name: 'name of i-1',
      typeId: 't',
      periods: 2,
      ms: { charged: 90 * 60_000, waiting: 700 },
      quantityMs: 90 * 60_000,
      amountMicros: spent,
    });
    const volume = Number((BigInt(PER_HOUR) * 10n * BigInt(31 * DAY_MS)) / BigInt(30 * DAY_MS));
    const before = Number((BigInt(PER_HOUR) * 10n * BigInt(DAY_MS)) / BigInt(30 * DAY_MS));
    expect(resources.find(({ subjectId }) => subjectId === 'v-1')).toMatchObject({
      ms: { charged: 30 * DAY_MS },
      quantityMs: 300 * DAY_MS,
      amountMicros: volume - before,
    });
    expect(meters.find(({ meter }) => meter === 'compute')).toMatchObject({
      amountMicros: spent + 70_000_001,
      ms: { charged: 90 * 60_000, waiting: 700 },
    });
    const second = await statements.page(ann, month('2026-11'), { currentPage: 2, pageSize: 1 });
    expect(second.resources.map(({ subjectId }) => subjectId)).toEqual(['i-paid']);
  });

  test('the lines of a whole statement are those of its pages; another account has none of them', async () => {
    const store = await open();
    const { statements } = await booksOf(store);
    for (let number = 0; number < 250; number += 1)
      await live(store, { subjectId: `i-${number}`, fromMs: NOVEMBER + number, untilMs: NOVEMBER + number + 60_000 });
    const { lines } = await statements.whole(ann, month('2026-11'));
    const all = (await Array.fromAsync(lines)).flat();
    const paged = await Promise.all(
      [1, 2, 3].map(
        async (currentPage) => (await statements.page(ann, month('2026-11'), { currentPage, pageSize: 100 })).resources,
      ),
    );
    expect(all).toEqual(paged.flat());
    expect(all).toHaveLength(251);
    const bob = await statements.page(callerOf('bob'), month('2026-11'), pager);
    expect(bob).toMatchObject({ chargesMicros: 0, resources: [], entries: [], meters: [], movements: [] });
    await expect(statements.page(ann, month('2027-02'), pager)).rejects.toMatchObject({
      code: 'field_value',
      message: 'field "month" is 2027-02, which has not begun: send the current month, or one before it',
    });
  });
});

onBothEngines('usage', (open) => {
  const all = {
    fromMs: NOVEMBER,
    untilMs: NOVEMBER + 2 * DAY_MS,
    by: 'day',
    timeZone: 'UTC',
    groupBy: 'resource',
  } as const;

  test('buckets split time and cost, and sum up to the entries', async () => {
    const store = await open();
    const { usage } = await booksOf(store);
    const spent = await live(store, {
      subjectId: 'i-1',
      fromMs: NOVEMBER + 20 * HOUR_MS + 5,
      untilMs: NOVEMBER + 30 * HOUR_MS,
    });
    await live(store, {
      subjectId: 'i-1',
      state: 'starting',
      fromMs: NOVEMBER + 20 * HOUR_MS,
      untilMs: NOVEMBER + 20 * HOUR_MS + 5,
    });
    const { rows } = await usage.rows(ann, all, pager);
    const own = rows.filter(({ subjectId }) => subjectId === 'i-1');
    expect(own.map(({ fromMs, ms }) => [fromMs, ms])).toEqual([
      [NOVEMBER, { charged: 4 * HOUR_MS - 5, starting: 5 }],
      [NOVEMBER + DAY_MS, { charged: 6 * HOUR_MS }],
    ]);
    for (const by of ['hour', 'day', 'week', 'month'] as const)
      for (const groupBy of ['resource', 'meter', 'type', 'label:team']) {
        const found = await usage.rows(ann, { ...all, by, groupBy }, { currentPage: 1, pageSize: 500 });
        const sum = found.rows.reduce((total, { amountMicros }) => total + amountMicros, 0);
        expect([by, groupBy, sum]).toEqual([by, groupBy, spent + 70_000_001]);
      }
    expect((await usage.rows(callerOf('bob'), all, pager)).totalEntries).toBe(0);
  });

  test('rows group by type and by label, and a page is a part of them', async () => {
    const store = await open();
    const { usage } = await booksOf(store);
    const lived = { fromMs: NOVEMBER, untilMs: NOVEMBER + HOUR_MS };
    await live(store, { ...lived, subjectId: 'i-1', typeId: 'big', labels: { team: 'red' } });
    await live(store, { ...lived, subjectId: 'i-2', typeId: 'big', labels: { team: 'blue' } });
    await live(store, { ...lived, subjectId: 'i-3', typeId: 'small', labels: { team: 'red' } });
    const groups = async (groupBy: string) =>
      (await usage.rows(ann, { ...all, untilMs: NOVEMBER + 1, groupBy }, pager)).rows.map(({ group, amountMicros }) => [
        group,
        amountMicros,
      ]);
    expect(await groups('type')).toEqual([
      ['big', 2 * PER_HOUR],
      ['small', PER_HOUR],
    ]);
    expect(await groups('label:team')).toEqual([
      ['blue', PER_HOUR],
      ['red', 2 * PER_HOUR],
    ]);
    expect(await groups('label:other')).toEqual([['', 3 * PER_HOUR]]);
    const page = await usage.rows(ann, { ...all, groupBy: 'label:team' }, { currentPage: 2, pageSize: 1 });
    expect(page).toMatchObject({ rows: [{ group: 'red' }], totalEntries: 3 });
  });

  test('a range of too many spans is refused', async () => {
    const { usage } = await booksOf(await open());
    const long: UsageRequest = { ...all, by: 'hour', untilMs: NOVEMBER + 40 * DAY_MS };
    await expect(usage.rows(ann, long, pager)).rejects.toMatchObject({
      code: 'field_value',
      message: 'the range has more than 750 spans by hour: send a shorter one, or a longer "by"',
    });
  });
});

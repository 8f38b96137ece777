/** Statements and usage over periods and entries written by the test: sums to the micro-dollar. */
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../../src/domain/kernel/durations.ts';
import { chargesSoFar, nextSlice } from '../../../src/store/tables/report-rows.ts';
import { insertPeriod, setCharging } from '../../../src/store/tables/usage-periods.ts';
import { plainEntry, writeEntries } from '../../../src/store/tables/ledger.ts';
import { countingRows } from '../../../src/async/rows-read.ts';
import { partsOf } from '../../../src/control/money/report.ts';
import { makeUsage, type UsageRequest } from '../../../src/control/money/usage-report.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { Store } from '../../../src/store/store.ts';
import { callerOf } from '../../fixtures/caller.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { afterReads, ann, booksOf, DECEMBER, live, NOVEMBER, NOW, pager, pay, PER_HOUR } from './statement-fixture.ts';

/** Copies the only period of a resource and its entry, in hundreds. */
async function multiply(store: Store, subjectId: string, hundreds: number): Promise<void> {
  await store.write(async (tx) => {
    const ofResource = tx.selectFrom('usagePeriod').selectAll().where('subjectId', '=', subjectId);
    const { id: periodId, ...period } = await ofResource.executeTakeFirstOrThrow();
    const ofPeriod = tx.selectFrom('entry').selectAll().where('periodId', '=', periodId);
    const { id: _entryId, ...entry } = await ofPeriod.executeTakeFirstOrThrow();
    for (let count = 0; count < hundreds; count += 1) {
      const copies = Array.from({ length: 100 }, () => period);
      const ids = await tx.insertInto('usagePeriod').values(copies).returning('id').execute();
      const entries = ids.map(({ id }) => ({ ...entry, periodId: id }));
      await tx.insertInto('entry').values(entries).execute();
    }
  });
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
    expect(bob.totalResources).toBe(0);
    await expect(statements.page(ann, month('2027-02'), pager)).rejects.toMatchObject({
      code: 'field_value',
      message: 'field "month" is 2027-02, which has not begun: send the current month, or one before it',
    });
  });

  test('a line is described by the last period, free open time has no quantity, and later resources are absent', async () => {
    const store = await open();
    const { statements } = await booksOf(store);
    const old = { fromMs: NOVEMBER, untilMs: NOVEMBER + HOUR_MS };
    await live(store, { ...old, subjectId: 'i-1', typeId: 'small', name: 'old' });
    await live(store, { ...old, subjectId: 'i-1', state: 'waiting', typeId: 'large', name: 'new' });
    await live(store, { subjectId: 'i-2', state: 'waiting', fromMs: NOVEMBER, untilMs: null });
    await live(store, { subjectId: 'i-3', fromMs: DECEMBER, untilMs: DECEMBER + HOUR_MS });
    await live(store, { ...old, subjectId: 'v-1', meter: 'volume', quantity: 900, source: 'uncollected' });
    const { resources, totalResources, ...sums } = await statements.page(ann, month('2026-11'), pager);
    expect(resources[0]).toMatchObject({ name: 'new', typeId: 'large', ms: { charged: HOUR_MS, waiting: HOUR_MS } });
    expect(resources[1]).toMatchObject({ quantityMs: 0, ms: { waiting: DECEMBER - NOVEMBER } });
    expect([totalResources, resources.length]).toEqual([4, 4]);
    const volume = resources.find(({ subjectId }) => subjectId === 'v-1')?.amountMicros;
    expect(volume).toBeGreaterThan(0);
    expect(sums).toMatchObject({ uncollectedMicros: volume, hasMoreEntries: false });
  });

  test('bookings while a statement is read change none of its sums', async () => {
    const store = await open();
    let bookings = 0;
    const deposit = { atMs: NOW, kind: 'deposit', from: 'deposits', to: 'cash', micros: 5 };
    const disturbed = afterReads(store, async () => {
      if ((bookings += 1) <= 20) await pay(store, deposit);
    });
    const { statements } = await booksOf(disturbed);
    const { balances } = await statements.page(ann, month('2026-11'), pager);
    expect(bookings).toBeGreaterThan(20);
    expect(balances[0]).toEqual({ ledger: 'cash', openingMicros: 5_000_000_000, closingMicros: 4_929_999_999 });
  });

  test('a thousand entries are listed, and more are announced', async () => {
    const store = await open();
    const { statements } = await booksOf(store);
    const deposit = { ...plainEntry, accountId: 'ann', kind: 'deposit', fromLedger: 'deposits', toLedger: 'cash' };
    const entries = Array.from({ length: 999 }, (_, at) => ({ ...deposit, atMs: NOVEMBER + at, amountMicros: 1 }));
    await store.write((tx) => writeEntries(tx, entries));
    const { entries: listed, hasMoreEntries } = await statements.page(ann, month('2026-11'), pager);
    expect([listed.length, hasMoreEntries]).toEqual([1_000, true]);
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

  test('an open period costs in each span what it was charged there; a payment has the last label', async () => {
    const store = await open();
    const { usage } = await booksOf(store);
    await live(store, { subjectId: 'i-1', fromMs: NOVEMBER + 23 * HOUR_MS, untilMs: null });
    for (const [at, team] of ['red', 'blue'].entries())
      await live(store, {
        subjectId: 'i-paid',
        state: 'paidAhead',
        fromMs: NOVEMBER + at,
        untilMs: NOVEMBER + at + 1,
        labels: { team },
      });
    const amounts = async (groupBy: string, group: string) =>
      (await usage.rows(ann, { ...all, groupBy }, pager)).rows
        .filter((row) => row.group === group || row.subjectId === group)
        .map(({ amountMicros }) => amountMicros);
    expect(await amounts('resource', 'i-1')).toEqual([PER_HOUR, 24 * PER_HOUR]);
    expect(await amounts('label:team', 'blue')).toEqual([0, 70_000_001]);
    expect(await amounts('label:team', 'red')).toEqual([0]);
  });

  test('a range of too many periods or rows is refused', async () => {
    const store = await open();
    const { usage } = await booksOf(store);
    await live(store, { subjectId: 'i-0', state: 'waiting', fromMs: NOVEMBER, untilMs: NOVEMBER + 1 });
    const copies = (count: number, ms: number) =>
      store.write((tx) =>
        sql`insert into "usagePeriod" ("accountId", "subjectId", "subjectName", meter, state, "regionId", "typeId",
            "priceMicros", quantity, "unitMs", "openedAtMs", "closedAtMs", "openSeq", "chargedUntilMs", carry, "isCharging")
          with recursive n(i) as (select 1 union all select i + 1 from n where i < ${sql.lit(count)})
          select "accountId", 'i-' || i, '', meter, state, "regionId", "typeId", 0, 1, 1, "openedAtMs",
            "openedAtMs" + ${sql.lit(ms)}, 1, 0, 0, 0 from "usagePeriod" cross join n
          where "subjectId" = 'i-0'`.execute(tx),
      );
    await copies(150, 700 * HOUR_MS);
    const hours = { ...all, by: 'hour', untilMs: NOVEMBER + 700 * HOUR_MS } as const;
    await expect(usage.rows(ann, hours, pager)).rejects.toThrow(/^the answer has more than 100000 rows by resource: /);
    expect((await usage.rows(ann, { ...hours, groupBy: 'meter' }, pager)).totalEntries).toBe(700);
    await copies(49_850, 1);
    await expect(usage.rows(ann, all, pager)).rejects.toThrow(/^the range has more than 50000 usage periods: /);
  });

  test('a range of too many spans is refused', async () => {
    const { usage } = await booksOf(await open());
    const long: UsageRequest = { ...all, by: 'hour', untilMs: NOVEMBER + 40 * DAY_MS };
    await expect(usage.rows(ann, long, pager)).rejects.toMatchObject({
      code: 'field_value',
      message: 'the range has more than 750 spans by hour: send a shorter one, or a longer "by"',
    });
  });

  test('a page of many resources is read in parts', async () => {
    const store = await open();
    let reads = 0;
    const { statements } = await booksOf(afterReads(store, async () => void (reads += 1)));
    for (let number = 0; number < 120; number += 1)
      await live(store, { subjectId: `i-${number}`, fromMs: NOVEMBER + number, untilMs: NOVEMBER + number + 60_000 });
    const readsOf = async (pageSize: number): Promise<number> => {
      const before = reads;
      await statements.page(ann, month('2026-11'), { currentPage: 1, pageSize });
      return reads - before;
    };
    const ofFew = await readsOf(50);
    expect(await readsOf(120)).toBeGreaterThanOrEqual(ofFew + 2);
  });

  test('a resource of many periods is read in parts of ten thousand, each period once', async () => {
    const store = await open();
    const { statements } = await booksOf(store);
    await live(store, { subjectId: 'i-1', fromMs: NOVEMBER, untilMs: NOVEMBER + 1_000 });
    await live(store, { subjectId: 'i-2', fromMs: NOVEMBER, untilMs: NOVEMBER + 1_000 });
    const read = async () => {
      let most = 0;
      const { lines } = await statements.whole(ann, month('2026-11'));
      const found = await countingRows(
        (rows) => (most = Math.max(most, rows)),
        () => Array.fromAsync(lines),
      );
      const lineOf = (id: string) => found.flat().find(({ subjectId }) => subjectId === id);
      return { one: lineOf('i-1'), other: lineOf('i-2'), most };
    };
    const before = await read();
    await multiply(store, 'i-1', 250);
    const { one, other, most } = await read();
    expect(one).toMatchObject({ periods: 25_001, quantityMs: 25_001_000 });
    expect(one?.amountMicros).toBe((before.one?.amountMicros ?? 0) * 25_001);
    expect(other).toEqual(before.other);
    const parts = await partsOf({ store }, { by: [], subjectIds: ['i-2', 'i-1', 'i-3'] });
    const charged = await Promise.all(parts.map((part) => chargesSoFar(store.read, part)));
    const total = charged.flat().reduce((sum, { subjectId, micros }) => sum + (subjectId === 'i-1' ? micros : 0), 0);
    expect(total).toBe(one?.amountMicros);
    if (store.kind !== 'sqlite') return;
    expect(parts.map(({ subjectIds, ids }) => [subjectIds, ids === undefined])).toEqual([
      [['i-1'], false],
      [['i-1'], false],
      [['i-1'], false],
      [['i-2', 'i-3'], true],
    ]);
    // Rows that are summed count as a tenth.
    expect(most).toBeLessThanOrEqual(1_000);
  });

  test('rows of usage are finished in parts, and let other requests in between', async () => {
    const store = await open();
    let turns = 0;
    const after: typeof realTime.after = (ms, fn) => {
      turns += 1;
      return realTime.after(ms, fn);
    };
    await booksOf(store);
    const usage = makeUsage({ store, time: { now: () => NOW, after } });
    for (let number = 0; number < 30; number += 1)
      await live(store, {
        subjectId: `i-${number}`,
        state: 'waiting',
        fromMs: NOVEMBER,
        untilMs: NOVEMBER + 100 * HOUR_MS,
      });
    const turnsBy = async (groupBy: string): Promise<number> => {
      const before = turns;
      await usage.rows(ann, { ...all, by: 'hour', untilMs: NOVEMBER + 100 * HOUR_MS, groupBy }, pager);
      return turns - before;
    };
    const ofFew = await turnsBy('meter');
    // 3,000 rows instead of 100.
    expect(await turnsBy('resource')).toBeGreaterThanOrEqual(ofFew + 2);
  });

  test('time of before billing was on has no price, and stays as it is when billing is on', async () => {
    const store = await open();
    const { statements, usage } = await booksOf(store);
    await live(store, { subjectId: 'v-1', meter: 'volume', fromMs: NOVEMBER - HOUR_MS, untilMs: NOVEMBER });
    const openedAtMs = NOVEMBER + 9 * DAY_MS;
    const [opened, never] = [
      { openSeq: 3, carry: 0, openedAtMs },
      { closedAtMs: null, closeSeq: null },
    ] as const;
    await store.write(async (tx) => {
      const {
        id: _id,
        chargedMicros: _charged,
        labels: _labels,
        ...last
      } = await tx.selectFrom('usagePeriod').selectAll().executeTakeFirstOrThrow();
      await insertPeriod(tx, { ...last, ...opened, ...never, chargedUntilMs: openedAtMs, isCharging: 0 });
    });
    const viewsOf = async () => ({
      statement: await statements.page(ann, month('2026-11'), pager),
      usage: await usage.rows(ann, { ...all, by: 'day', groupBy: 'resource' }, pager),
    });
    const before = await viewsOf();
    expect(before.statement.isFinal).toBe(true);
    const line = before.statement.resources.at(-1);
    expect(line).toMatchObject({ ms: { charged: 21 * DAY_MS }, quantityMs: 21 * DAY_MS, prices: [], amountMicros: 0 });
    await store.write((tx) => setCharging(tx, true, NOW));
    expect(await viewsOf()).toEqual(before);
  });

  test('a slice of closed periods has the first time at which one of them opened', async () => {
    const store = await open();
    await booksOf(store);
    const closed = [1, 2, 2, 3].map((hour, index) => ({
      openedMs: NOVEMBER - index,
      closedMs: NOVEMBER + hour * HOUR_MS,
    }));
    for (const [index, { openedMs, closedMs }] of closed.entries())
      await live(store, { subjectId: `i-${index}`, state: 'waiting', fromMs: openedMs, untilMs: closedMs });
    // Periods that close together are in one slice.
    expect(await nextSlice(store.read, 'ann', NOVEMBER, 1)).toEqual({
      openedAtMs: NOVEMBER - 2,
      upToMs: NOVEMBER + 2 * HOUR_MS,
    });
    expect(await nextSlice(store.read, 'ann', NOVEMBER + 2 * HOUR_MS, 1)).toEqual({
      openedAtMs: NOVEMBER - 3,
      upToMs: Number.MAX_SAFE_INTEGER,
    });
  });
});

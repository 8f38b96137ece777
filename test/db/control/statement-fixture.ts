/** Books written by a test: periods with their charges, and entries that move the balances. */
import { makeChargeExports } from '../../../src/control/money/focus-charges.ts';
import { makeStatements } from '../../../src/control/money/statement.ts';
import { makeUsage } from '../../../src/control/money/usage-report.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { accrue } from '../../../src/domain/money/charge.ts';
import { DAY_MS, HOUR_MS } from '../../../src/domain/kernel/durations.ts';
import type { Meter, MeterState } from '../../../src/domain/money/meter.ts';
import { plainEntry, writeEntries } from '../../../src/store/tables/ledger.ts';
import type { Store } from '../../../src/store/store.ts';
import { callerOf } from '../../fixtures/caller.ts';
import { accountRow } from '../store/rows.ts';

export const NOVEMBER = Date.UTC(2026, 10, 1);
export const DECEMBER = Date.UTC(2026, 11, 1);
export const NOW = Date.UTC(2026, 11, 20);
export const pager = { currentPage: 1, pageSize: 100 };

export const ann = callerOf('ann');

interface Lived {
  subjectId: string;
  state?: MeterState;
  meter?: Meter;
  fromMs: number;
  untilMs: number | null;
  typeId?: string;
  source?: 'cash' | 'voucher' | 'uncollected';
  labels?: object;
  quantity?: number;
  accountId?: string;
  name?: string;
}

/** Odd, so that each hour leaves a carry. */
export const PER_HOUR = 1_234_567;

export async function live(store: Store, lived: Lived): Promise<number> {
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
        subjectName: lived.name ?? `name of ${lived.subjectId}`,
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
    if (source !== 'uncollected') await move(tx, accountId, source, -chargedMicros);
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

export async function pay(
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

/** The store with a work after each of its reads. */
export const afterReads = (store: Store, work: () => Promise<void>): Store => ({
  ...store,
  read: store.read.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      await work();
      return result;
    },
  }),
});

export async function booksOf(store: Store) {
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
    kind: 'prepayment',
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
  return {
    statements: makeStatements({ store, time }),
    usage: makeUsage({ store, time }),
    exports: makeChargeExports({ store, time }),
  };
}

/** Amortization of time paid ahead. No row has time before its write: past months stay. */
import type { Insertable, Selectable } from 'kysely';
import { usedMicros } from '../../domain/money/amortization.ts';
import type { TimeSpan } from '../../domain/money/usage-buckets.ts';
import type { AmortizationTable } from '../db/billing-schema.ts';
import type { Db } from '../store.ts';

type Row = Selectable<AmortizationTable>;
type Price = Pick<Row, 'priceMicros' | 'priceUnit'>;

export type BegunAmortization = Omit<Row, 'fromMs' | 'untilMs' | 'endMs'> & TimeSpan & { endMs: number };

function begunOf(row: Row): BegunAmortization | null {
  const { fromMs, untilMs, endMs } = row;
  return fromMs === null || untilMs === null || endMs === null ? null : { ...row, fromMs, untilMs, endMs };
}

export const amortizationOf = (db: Db, subjectId: string): Promise<Row | undefined> =>
  db
    .selectFrom('amortization')
    .selectAll()
    .where('subjectId', '=', subjectId)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();

export interface AmortizationChange {
  addedMicros: number;
  price: Price;
  /** Null: the time has not begun. */
  span: TimeSpan | null;
  nowMs: number;
}

/** Spreads the unused rest of `former`, and `addedMicros`, over the time to come. */
export async function amortizeRest(
  tx: Db,
  { accountId, subjectId }: Pick<Row, 'accountId' | 'subjectId'>,
  former: Row | undefined,
  { addedMicros, price, span, nowMs }: AmortizationChange,
): Promise<void> {
  const begun = former && begunOf(former);
  const usedSoFar = begun ? usedMicros(begun, nowMs) : 0;
  const fromMs = span && Math.max(span.fromMs, nowMs);
  const untilMs = span && fromMs && Math.max(span.untilMs, fromMs + 1);
  const amountMicros = (former?.amountMicros ?? 0) - usedSoFar + addedMicros;
  const row: Insertable<AmortizationTable> = {
    accountId,
    subjectId,
    ...price,
    amountMicros,
    fromMs,
    untilMs,
    endMs: untilMs,
  };
  if (former && !begun) {
    await tx.updateTable('amortization').set(row).where('id', '=', former.id).execute();
    return;
  }
  if (begun) {
    const endMs = Math.min(begun.endMs, Math.max(begun.fromMs, nowMs));
    await tx.updateTable('amortization').set({ endMs }).where('id', '=', begun.id).execute();
  }
  if (amountMicros !== 0 || span === null || !begun) await tx.insertInto('amortization').values(row).execute();
}

/** Rows that touch the span, by id. */
export async function amortizationsIn(
  db: Db,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  { after, limit }: { after: number; limit: number },
): Promise<BegunAmortization[]> {
  const rows = await db
    .selectFrom('amortization')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('endMs', '>', fromMs)
    .where('fromMs', '<', untilMs)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.flatMap((row) => begunOf(row) ?? []);
}

/** GPU time of accounts by the hour: `atMs` is its start. */
import { sql } from 'kysely';
import { noteSmallRows } from '../../async/rows-read.ts';
import type { GpuTime } from '../../domain/compute/gpu-time.ts';
import type { TimeSpan } from '../../domain/money/usage-buckets.ts';
import type { Db } from '../store.ts';

export async function addGpuUse(tx: Db, atMs: number, byAccount: ReadonlyMap<string, GpuTime>): Promise<void> {
  if (byAccount.size === 0) return;
  await tx
    .insertInto('gpuUse')
    .values([...byAccount].map(([accountId, time]) => ({ accountId, atMs, ...time })))
    .onConflict((conflict) =>
      conflict.columns(['accountId', 'atMs']).doUpdateSet((row) => ({
        heldMs: row('gpuUse.heldMs', '+', row.ref('excluded.heldMs')),
        measuredMs: row('gpuUse.measuredMs', '+', row.ref('excluded.measuredMs')),
        busyMs: row('gpuUse.busyMs', '+', row.ref('excluded.busyMs')),
      })),
    )
    .execute();
}

/** Sums by start of span; spans begin and end at full hours of UTC, and empty ones are left out. */
export async function gpuUseIn(db: Db, accountId: string, spans: readonly TimeSpan[]): Promise<Map<number, GpuTime>> {
  const values = spans.map(({ fromMs, untilMs }) => sql`(${sql.lit(fromMs)}, ${sql.lit(untilMs)})`);
  // PostgreSQL answers sums of integers as text.
  const { rows } = await sql<GpuTime & { fromMs: number; hours: number }>`
    with span("fromMs", "untilMs") as (values ${sql.join(values)})
    select span."fromMs", count(*) as hours, cast(sum("heldMs") as double precision) as "heldMs",
      cast(sum("measuredMs") as double precision) as "measuredMs", cast(sum("busyMs") as double precision) as "busyMs"
    from span cross join "gpuUse"
    where "accountId" = ${accountId} and "atMs" >= span."fromMs" and "atMs" < span."untilMs"
    group by span."fromMs"`.execute(db);
  for (const { hours } of rows) noteSmallRows(hours);
  return new Map(rows.map(({ fromMs, heldMs, measuredMs, busyMs }) => [fromMs, { heldMs, measuredMs, busyMs }]));
}

export const deleteGpuUseBefore = (tx: Db, beforeMs: number): Promise<unknown> =>
  tx.deleteFrom('gpuUse').where('atMs', '<', beforeMs).execute();

/** Pages of tables without a bound: a query reads one slice, however few rows a filter matches. */
import { sql, type RawBuilder } from 'kysely';
import { noteSmallRows } from '../../async/rows-read.ts';
import type { Db } from '../store.ts';

const SLICE = 10_000;

export interface PageSpan {
  limit: number;
  offset: number;
  /** The count stops here. */
  maxTotal: number;
}

interface SlicedTable {
  table: 'entry' | 'usagePeriod' | 'audit';
  /** Columns of an index behind those of `within`, the last one unique. Newest rows have more. */
  by: readonly string[];
  within: readonly RawBuilder<unknown>[];
  /** Bounds of the first column of `by`: a slice has its own instead. */
  from?: RawBuilder<unknown> | undefined;
  until?: RawBuilder<unknown> | undefined;
  filter: readonly RawBuilder<unknown>[];
}

export const equalTo = (values: Record<string, string | undefined>): RawBuilder<unknown>[] =>
  Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [sql`${sql.ref(name)} = ${value}`]));

/** Newest first. */
export async function pageInSlices<Row>(
  db: Db,
  { table, by, within, from, until, filter }: SlicedTable,
  { limit, offset, maxTotal }: PageSpan,
): Promise<{ rows: Row[]; total: number }> {
  const key = sql`(${sql.join(by.map((name) => sql.ref(name)))})`;
  const newest = sql`order by ${sql.join(by.map((name) => sql`${sql.ref(name)} desc`))}`;
  const rowsOf = (...conditions: RawBuilder<unknown>[]): RawBuilder<unknown> =>
    sql`from ${sql.table(table)} where ${sql.join([...within, ...conditions], sql` and `)}`;
  const least = from ?? sql`1 = 1`;
  const rows: Row[] = [];
  let total = 0;
  let before = until ?? sql`1 = 1`;
  for (;;) {
    const { rows: ends } = await sql<Record<string, number>>`select ${sql.join(by.map((name) => sql.ref(name)))}
      ${rowsOf(before, least)} ${newest} limit 1 offset ${sql.lit(SLICE - 1)}`.execute(db);
    const [end] = ends;
    const last = end && sql`(${sql.join(by.map((name) => end[name]))})`;
    const found = rowsOf(before, last ? sql`${key} >= ${last}` : least, ...filter);
    const counted = await sql<{ count: number }>`select count(*) as count ${found}`.execute(db);
    const count = counted.rows[0]?.count ?? 0;
    if (rows.length < limit && total + count > offset) {
      const some = sql`limit ${limit - rows.length} offset ${Math.max(0, offset - total)}`;
      rows.push(...(await sql<Row>`select * ${found} ${newest} ${some}`.execute(db)).rows);
    }
    total += count;
    if (!last || (total >= maxTotal && total >= offset + limit)) return { rows, total: Math.min(total, maxTotal) };
    before = sql`${key} < ${last}`;
    noteSmallRows(SLICE);
  }
}

/** Orders of lists that callers choose. Rows of equal value come newest first, as without one. */
import { sql, type RawBuilder, type SelectQueryBuilder } from 'kysely';
import { instanceStatuses } from '../../domain/compute/instance-states.ts';
import type { ListSort } from '../../domain/kernel/list-sorts.ts';

/** In the order of a life, as a person looks for it; the text would begin with Archived. */
const rankOfStatus = sql`case status ${sql.join(
  instanceStatuses.map((status, rank) => sql`when ${sql.lit(status)} then ${sql.lit(rank)}`),
  sql` `,
)} end`;

const keys: Readonly<Record<ListSort['by'], RawBuilder<unknown>>> = {
  createdAt: sql.ref('createdAtMs'),
  name: sql.ref('searchName'),
  username: sql.ref('username'),
  email: sql.ref('email'),
  balance: sql.ref('balanceMicros'),
  status: rankOfStatus,
  price: sql.ref('priceMicros'),
  size: sql.ref('sizeGB'),
  usage: sql.ref('usageBytes'),
};

/** Terms of `order by`; without a sort newest first. */
export function orderOf({ by, order }: ListSort = { by: 'createdAt', order: 'desc' }): RawBuilder<unknown>[] {
  const direction = order === 'asc' ? sql`asc` : sql`desc`;
  const key = keys[by];
  return by === 'createdAt'
    ? [sql`"createdAtMs" ${direction}`, sql`id ${direction}`]
    : [sql`${key} ${direction}`, sql`"createdAtMs" desc`, sql`id desc`];
}

/** The query in the order, and a page of it. */
export const inOrder = <Tables, Name extends keyof Tables, Row>(
  query: SelectQueryBuilder<Tables, Name, Row>,
  order: readonly RawBuilder<unknown>[],
  page?: { limit: number; offset: number },
): SelectQueryBuilder<Tables, Name, Row> => {
  const sorted = order.reduce((so, term) => so.orderBy(term), query);
  return page ? sorted.limit(page.limit).offset(page.offset) : sorted;
};

/** Instances and volumes of all accounts, for operators. */
import { sql } from 'kysely';
import type { InstanceStatus } from '../../domain/compute/instance-states.ts';
import type { ListSort } from '../../domain/kernel/list-sorts.ts';
import type { Db } from '../store.ts';
import { labelledText, matches } from './labelled-rows.ts';
import { inOrder, orderOf } from './list-order.ts';

/** Absent members filter nothing. */
export interface OperatorFilter {
  ownerId?: string | undefined;
  regionId?: string | undefined;
  name?: string | undefined;
  /** For instances only. */
  status?: readonly InstanceStatus[] | undefined;
  /** An order of the table. */
  sort?: ListSort | undefined;
}

export interface OwnedText {
  ownerId: string;
  ownerName: string;
  publicText: string;
}

/** A page, newest first without a sort. Finds its ids in an index alone: the rows are large. */
export async function pageOfAll(
  db: Db,
  table: 'instance' | 'volume',
  { ownerId, regionId, name, status, sort }: OperatorFilter,
  { offset, limit }: { offset: number; limit: number },
): Promise<{ rows: OwnedText[]; totalEntries: number }> {
  let found = db
    .selectFrom(table)
    .where('listed', '=', sql.lit(1))
    .where(matches(db, '', { name }));
  if (ownerId !== undefined) found = found.where('ownerId', '=', ownerId);
  if (regionId !== undefined) found = found.where('regionId', '=', regionId);
  if (status !== undefined) found = found.where('status', 'in', status);
  const order = orderOf(sort);
  const page = inOrder(found.select('id'), order, { limit, offset: Math.min(offset, Number.MAX_SAFE_INTEGER) });
  const [counted, rows] = await Promise.all([
    found.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirst(),
    inOrder(
      db
        .selectFrom(table)
        .select(['ownerId', 'ownerName', labelledText.as('publicText')])
        .where('id', 'in', page),
      order,
    ).execute(),
  ]);
  return { rows, totalEntries: counted?.total ?? 0 };
}

/** Instances of a region that run, or start and hold a node port. */
const active = (db: Db, region: string) =>
  db
    .selectFrom('instance')
    .where('id', 'in', db.selectFrom('nodePort').select('instanceId').where('regionId', '=', region))
    .where('desired', '=', 'running')
    .where('waitsSinceMs', 'is', null)
    .where('notBeforeMs', 'is', null);

export const activeInstances = (db: Db, region: string, limit: number): Promise<{ id: string; ownerId: string }[]> =>
  active(db, region).select(['id', 'ownerId']).limit(limit).execute();

export async function activeOwners(db: Db, region: string): Promise<string[]> {
  const rows = await active(db, region).select('ownerId').distinct().execute();
  return rows.map(({ ownerId }) => ownerId);
}

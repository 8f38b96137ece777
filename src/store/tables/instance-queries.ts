/** Instances that periodic tasks look for, by indexes that skip rows at rest. */
import { sql } from 'kysely';
import { parseJson } from '../db/columns.ts';
import type { InstanceRow } from './instance-columns.ts';
import type { Db } from '../store.ts';
import { sizedSpec } from './json-schemas.ts';

const idsIn = async (query: { execute(): Promise<{ id: string }[]> }): Promise<string[]> =>
  (await query.execute()).map(({ id }) => id);

/** Found by node ports: the table of instances has all former ones too. */
const runningIn = (db: Db, region: string) =>
  db
    .selectFrom('instance')
    .select('id')
    .where('id', 'in', db.selectFrom('nodePort').select('instanceId').where('regionId', '=', region))
    .where('status', '=', 'Running');

export const runningIds = (db: Db, region: string): Promise<string[]> => idsIn(runningIn(db, region));

export const settledRunningIds = (db: Db, region: string): Promise<string[]> =>
  idsIn(runningIn(db, region).where('dueAtMs', 'is', null));

export async function runningRowsAmong(db: Db, ids: readonly string[]): Promise<InstanceRow[]> {
  if (ids.length === 0) return [];
  return db
    .selectFrom('instance')
    .selectAll()
    .where('id', 'in', ids)
    .where('status', '=', 'Running')
    .where('desired', '=', 'running')
    .execute();
}

export async function instanceRowsOfRegion(
  db: Db,
  region: string,
  afterId: string,
  limit: number,
): Promise<InstanceRow[]> {
  return db
    .selectFrom('instance')
    .selectAll()
    .where('regionId', '=', region)
    .where('listed', '=', 1)
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .execute();
}

export interface Overdue {
  id: string;
  ownerId: string;
  stopDueAtMs: number;
}

/** Instances past their stop time, longest overdue first; `after` null starts at the first. */
export async function overdueInstances(
  db: Db,
  nowMs: number,
  after: Pick<Overdue, 'stopDueAtMs' | 'id'> | null,
  limit: number,
): Promise<Overdue[]> {
  let overdue = db.selectFrom('instance').select(['id', 'ownerId', 'stopDueAtMs']).where('stopDueAtMs', '<=', nowMs);
  if (after) overdue = overdue.where(sql<boolean>`("stopDueAtMs", id) > (${after.stopDueAtMs}, ${after.id})`);
  const rows = await overdue.orderBy('stopDueAtMs').orderBy('id').limit(limit).execute();
  return rows.map(({ stopDueAtMs: atMs, ...row }) => ({ ...row, stopDueAtMs: atMs ?? nowMs }));
}

/** Running instances with an idle limit, by id; `afterId` '' starts at the first. */
export async function idleWatchedIds(db: Db, afterId: string, limit: number): Promise<string[]> {
  const watched = db.selectFrom('instance').select('id').where('idleAfterMs', 'is not', null);
  return idsIn(watched.where('id', '>', afterId).orderBy('id').limit(limit));
}

interface ActivePage {
  afterId: string;
  limit: number;
  onlyRunning: boolean;
  reachable?: boolean;
}

const activeIn = (db: Db, { reachable = false }: { reachable?: boolean | undefined }) => {
  const rows = db.selectFrom('instance').selectAll().where('desired', '<>', 'released');
  return reachable
    ? rows.where('ownerId', 'not in', db.selectFrom('account').select('id').where('disabled', '=', 1))
    : rows;
};

/**
 * Rows after `afterId`, by id; `onlyRunning`: with desired running, found by node ports;
 * `reachable`: without those of disabled accounts.
 */
export async function activeInstanceRows(
  db: Db,
  { afterId, limit, onlyRunning, reachable }: ActivePage,
): Promise<InstanceRow[]> {
  const rows = activeIn(db, { reachable }).where('id', '>', afterId).orderBy('id').limit(limit);
  return onlyRunning
    ? rows
        .where('desired', '=', 'running')
        .where('id', 'in', db.selectFrom('nodePort').select('instanceId').where('instanceId', '>', afterId))
        .execute()
    : rows.execute();
}

export const activeRowsAmong = (
  db: Db,
  ids: readonly string[],
  options: { reachable?: boolean } = {},
): Promise<InstanceRow[]> => activeIn(db, options).where('id', 'in', ids).execute();

export const activeIdsOf = (db: Db, ownerId: string): Promise<string[]> =>
  idsIn(db.selectFrom('instance').select('id').where('ownerId', '=', ownerId).where('desired', '<>', 'released'));

/** Instances that are to run although their account is disabled. */
export const instancesOfDisabledAccounts = (db: Db): Promise<{ id: string; ownerId: string }[]> =>
  db
    .selectFrom('instance')
    .select(['id', 'ownerId'])
    .where('ownerId', 'in', db.selectFrom('account').select('id').where('disabled', '=', sql.lit(1)))
    .where('desired', '=', 'running')
    .execute();

export async function releasedAmong(db: Db, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  return idsIn(db.selectFrom('instance').select('id').where('id', 'in', ids).where('desired', '=', 'released'));
}

/** Ids of instances with node ports, which include all that run, after `afterId`. */
export async function idsWithNodePorts(db: Db, afterId: string, limit: number): Promise<string[]> {
  const withPorts = db.selectFrom('nodePort').select('instanceId as id').where('instanceId', '>', afterId);
  return idsIn(withPorts.groupBy('instanceId').orderBy('instanceId').limit(limit));
}

/** Region and size of those of the instances that the account has, or had. */
export async function ownedSpecs(db: Db, ownerId: string, ids: readonly string[]) {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('instance')
    .select(['id', 'regionId', 'spec'])
    .where('id', 'in', ids)
    .where('ownerId', '=', ownerId)
    .execute();
  return rows.map(({ spec, ...row }) => ({
    ...row,
    spec: parseJson(sizedSpec, spec, { table: 'instance', id: row.id, column: 'spec' }),
  }));
}

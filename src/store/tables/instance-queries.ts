/** Instances that periodic tasks look for, by indexes that skip rows at rest. */
import { sql } from 'kysely';
import { gpuCountOf } from '../../domain/regions/catalog.ts';
import { parseJson } from '../db/columns.ts';
import { count, prepared } from '../db/prepared.ts';
import type { InstanceRow } from './instance-columns.ts';
import type { Db } from '../store.ts';
import { sizedSpec } from './json-schemas.ts';

const idsIn = async (query: { execute(): Promise<{ id: string }[]> }): Promise<string[]> =>
  idsOf(await query.execute());

const idsOf = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id);

/** Found by node ports: the table of instances has all former ones too. */
const runningIn = ({ onlySettled }: { onlySettled: boolean }) =>
  prepared<{ region: string }>()((db, p) =>
    db
      .selectFrom('instance')
      .select(['id', 'dueAtMs'])
      .where('id', 'in', db.selectFrom('nodePort').select('instanceId').where('regionId', '=', p('region')))
      .where('status', '=', 'Running')
      .$if(onlySettled, (rows) => rows.where('dueAtMs', 'is', null)),
  );
const running = runningIn({ onlySettled: false });
const settledRunning = runningIn({ onlySettled: true });

const withRootDisk = prepared<{ region: string }>()((db, p) =>
  db
    .selectFrom('instance')
    .select('id')
    .where('regionId', '=', p('region'))
    .where('rootDisk', '=', sql.lit('kept'))
    .where('dueAtMs', 'is', null),
);

export const settledWithRootDisk = async (db: Db, region: string): Promise<string[]> =>
  idsOf(await withRootDisk(db, { region }));

export const runningIds = async (db: Db, region: string): Promise<string[]> => idsOf(await running(db, { region }));

/** Running instances, and whether a reconcile is due. */
export const runningWithDue = async (db: Db, region: string): Promise<{ id: string; isDue: boolean }[]> =>
  (await running(db, { region })).map(({ id, dueAtMs }) => ({ id, isDue: dueAtMs !== null }));

export const settledRunningIds = async (db: Db, region: string): Promise<string[]> =>
  idsOf(await settledRunning(db, { region }));

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
    .where('listed', '=', sql.lit(1))
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .execute();
}

const idleWatched = prepared<{ afterId: string; limit: number }>()((db, p) =>
  db
    .selectFrom('instance')
    .select('id')
    .where('idleAfterMs', 'is not', null)
    .where('id', '>', p('afterId'))
    .orderBy('id')
    .limit(count(p('limit'))),
);

/** Running instances with an idle limit, by id; `afterId` '' starts at the first. */
export const idleWatchedIds = async (db: Db, afterId: string, limit: number): Promise<string[]> =>
  idsOf(await idleWatched(db, { afterId, limit }));

interface ActivePage {
  afterId: string;
  limit: number;
  onlyRunning: boolean;
  reachable?: boolean;
}

const activeIn = (db: Db, { reachable = false }: { reachable?: boolean | undefined }) => {
  const rows = db.selectFrom('instance').selectAll().where('desired', '<>', 'released');
  return reachable
    ? rows.where('ownerId', 'not in', db.selectFrom('account').select('id').where('disabled', '=', sql.lit(1)))
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
export const runningOfDisabled = (db: Db, ownerId: string): Promise<string[]> =>
  idsIn(
    db
      .selectFrom('instance')
      .innerJoin('account', 'account.id', 'ownerId')
      .select('instance.id')
      .where('ownerId', '=', ownerId)
      .where('disabled', '=', sql.lit(1))
      .where('desired', '=', 'running'),
  );

export async function releasedAmong(db: Db, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  return idsIn(db.selectFrom('instance').select('id').where('id', 'in', ids).where('desired', '=', 'released'));
}

/** Ids of instances with node ports, which include all that run, after `afterId`. */
export async function idsWithNodePorts(db: Db, afterId: string, limit: number): Promise<string[]> {
  const withPorts = db.selectFrom('nodePort').select('instanceId as id').where('instanceId', '>', afterId);
  return idsIn(withPorts.groupBy('instanceId').orderBy('instanceId').limit(limit));
}

/** Owners and GPUs of instances; `share` is the part of a card. */
export async function gpuHolders(db: Db, ids: readonly string[]) {
  const rows = await db.selectFrom('instance').select(['id', 'ownerId', 'spec']).where('id', 'in', ids).execute();
  return rows.map(({ id, ownerId, spec }) => {
    const sized = parseJson(sizedSpec, spec, { table: 'instance', id, column: 'spec' });
    return { id, ownerId, gpus: gpuCountOf(sized), share: sized.type.gpuShare ?? 1 };
  });
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

/**
 * Node ports, settings of access and wake (which reconciles never write), and links that open a
 * port.
 */
import { sql, type Selectable } from 'kysely';
import type { Instance } from '../../domain/compute/instance.ts';
import type { AccessByPort } from '../../domain/access/port-access.ts';
import { noWake, type WakePolicy } from '../../domain/compute/wake.ts';
import { parseJson } from '../db/columns.ts';
import type { PortShareTable } from '../db/schema.ts';
import type { Db } from '../store.ts';
import type { InstanceRow } from './instance-columns.ts';
import { accessByPort, wakePolicy } from './json-schemas.ts';

/** Allots one node port of the region; false when taken. */
export async function allotNodePort(
  tx: Db,
  region: string,
  nodePort: number,
  instance: string,
  port: number,
): Promise<boolean> {
  const result = await tx
    .insertInto('nodePort')
    .values({ regionId: region, nodePort, instanceId: instance, port })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst();
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n;
}

export async function allottedNodePorts(db: Db, region: string): Promise<Set<number>> {
  const rows = await db.selectFrom('nodePort').select('nodePort').where('regionId', '=', region).execute();
  return new Set(rows.map((row) => row.nodePort));
}

export async function releaseNodePorts(tx: Db, instance: string): Promise<void> {
  await tx.deleteFrom('nodePort').where('instanceId', '=', instance).execute();
}

/** Releases the node ports of ports that the instance no longer has. */
export async function releaseOtherNodePorts(
  tx: Db,
  { id, nodePorts }: Pick<Instance, 'id' | 'nodePorts'>,
): Promise<void> {
  const kept = nodePorts.map(({ port }) => port);
  const own = tx.deleteFrom('nodePort').where('instanceId', '=', id);
  await (kept.length === 0 ? own : own.where('port', 'not in', kept)).execute();
}

export async function releaseNodePort(tx: Db, instance: string, nodePort: number): Promise<void> {
  await tx.deleteFrom('nodePort').where('instanceId', '=', instance).where('nodePort', '=', nodePort).execute();
}

export function portAccessOf({ id, portAccess }: Pick<InstanceRow, 'id' | 'portAccess'>): AccessByPort {
  // The usual case, read with each look at a route.
  if (portAccess === '{}') return new Map();
  const byPort = parseJson(accessByPort, portAccess, { table: 'instance', id, column: 'portAccess' });
  return new Map(Object.entries(byPort).map(([port, access]) => [Number(port), access]));
}

export async function writePortAccess(tx: Db, instanceId: string, settings: AccessByPort): Promise<void> {
  const portAccess = JSON.stringify(Object.fromEntries(settings));
  await tx.updateTable('instance').set({ portAccess }).where('id', '=', instanceId).execute();
}

export const wakeOf = ({ id, wake }: Pick<InstanceRow, 'id' | 'wake'>): WakePolicy =>
  wake === '{}' ? noWake : parseJson(wakePolicy, wake, { table: 'instance', id, column: 'wake' });

export async function writeWake(tx: Db, instanceId: string, policy: WakePolicy): Promise<void> {
  await tx
    .updateTable('instance')
    .set({ wake: JSON.stringify(policy) })
    .where('id', '=', instanceId)
    .execute();
}

/** A link that opens one port of an instance; made and revoked under the lock of the account. */
export type PortShareRow = Selectable<PortShareTable>;

export async function insertShare(tx: Db, row: PortShareRow): Promise<void> {
  await tx.insertInto('portShare').values(row).execute();
}

export async function activeShare(db: Db, hash: string, nowMs: number): Promise<PortShareRow | undefined> {
  return db
    .selectFrom('portShare')
    .innerJoin('account', 'account.id', 'portShare.accountId')
    .selectAll('portShare')
    .where('portShare.hash', '=', hash)
    .where('portShare.expiresAtMs', '>', nowMs)
    .where('account.disabled', '=', sql.lit(0))
    .executeTakeFirst();
}

export async function sharesOf(db: Db, instanceId: string, nowMs: number): Promise<PortShareRow[]> {
  return db
    .selectFrom('portShare')
    .selectAll()
    .where('instanceId', '=', instanceId)
    .where('expiresAtMs', '>', nowMs)
    .orderBy('createdAtMs')
    .orderBy('id')
    .execute();
}

/** Valid links of the account. */
export async function countShares(db: Db, accountId: string, nowMs: number): Promise<number> {
  const { shares } = await db
    .selectFrom('portShare')
    .select(({ fn }) => fn.countAll<number>().as('shares'))
    .where('accountId', '=', accountId)
    .where('expiresAtMs', '>', nowMs)
    .executeTakeFirstOrThrow();
  return shares;
}

export async function deleteShare(tx: Db, instanceId: string, id: string): Promise<PortShareRow | undefined> {
  return tx
    .deleteFrom('portShare')
    .where('id', '=', id)
    .where('instanceId', '=', instanceId)
    .returningAll()
    .executeTakeFirst();
}

/** Call in the transaction that terminates the instance. */
export async function deleteSharesOf(tx: Db, instanceId: string): Promise<void> {
  await tx.deleteFrom('portShare').where('instanceId', '=', instanceId).execute();
}

export async function deleteExpiredShares(tx: Db, nowMs: number): Promise<void> {
  await tx.deleteFrom('portShare').where('expiresAtMs', '<=', nowMs).execute();
}

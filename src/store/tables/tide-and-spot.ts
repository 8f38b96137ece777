/** Spot instances: which hold capacity, and which lose it. */
import { capacityOfSpec } from '../../domain/regions/catalog.ts';
import type { SpotInstance } from '../../domain/compute/spot.ts';
import { parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { appendEvent } from './events.ts';
import { instanceFromRow, lockInstance, writeNotice } from './instances.ts';
import { sizedSpec } from './json-schemas.ts';

export interface Owned {
  id: string;
  ownerId: string;
}

export interface SpotHolder extends SpotInstance {
  ownerId: string;
  /** It is reclaimed already, or stops for another reason. */
  isEnding: boolean;
}

/** Spot instances of the region that hold capacity. */
export async function spotHolders(db: Db, region: string): Promise<SpotHolder[]> {
  const rows = await db
    .selectFrom('instance')
    .selectAll()
    .where('spotRegionId', '=', region)
    .where('holdsCapacity', '=', 1)
    .execute();
  return rows.map((row) => {
    const { id, ownerId, desired, reclaimAtMs, requestedAtMs, observed } = instanceFromRow(row);
    const held = capacityOfSpec(parseJson(sizedSpec, row.spec, { table: 'instance', id, column: 'spec' }));
    const isEnding = desired !== 'running' || reclaimAtMs !== null;
    return { id, ownerId, isEnding, held, requestedAtMs, runningSinceMs: observed.runningSinceMs };
  });
}

/** Announces that a spot instance loses its capacity, unless it stops before that anyway. */
export async function writeReclaim(
  tx: Db,
  { id, ownerId }: Owned,
  { atMs, reason }: { atMs: number; reason: string },
  nowMs: number,
): Promise<void> {
  const row = await lockInstance(tx, ownerId, id);
  if (row?.desired !== 'running' || row.holdsCapacity === 0) return;
  if (row.reclaimAtMs !== null && row.reclaimAtMs <= atMs) return;
  await writeNotice(tx, instanceFromRow(row), { reclaimAtMs: atMs }, nowMs);
  const data = { stopsAtUnixMs: atMs, reason };
  await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: 'instance.reclaimed', subjectId: id, data });
}

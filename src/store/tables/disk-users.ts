import { sql } from 'kysely';
import { diskKey, type DiskId, type DiskKind } from '../../domain/storage/disk.ts';
import type { Db } from '../store.ts';

function ofShared(id: string): { ownerId: string; regionId: string } {
  const [ownerId = '', regionId = ''] = id.split('/');
  return { ownerId, regionId };
}

export async function instancesWithDisk(db: Db, { kind, id }: DiskId): Promise<string[]> {
  const listed = db.selectFrom('instance').select('id').where('listed', '=', sql.lit(1));
  const withIt = (): typeof listed => {
    switch (kind) {
      case 'volume':
        return listed.where('id', 'in', db.selectFrom('mount').select('instanceId').where('volumeId', '=', id));
      case 'shared': {
        const { ownerId, regionId } = ofShared(id);
        return listed.where('ownerId', '=', ownerId).where('regionId', '=', regionId);
      }
      case 'data':
      case 'docker':
        return listed.where('id', '=', id);
      case 'snapshot':
        return listed.where(sql.lit(false));
      default:
        return kind satisfies never;
    }
  };
  return (await withIt().execute()).map((row) => row.id);
}

const AT_ONCE = 500;

/**
 * Keys of disks whose instance has desired running or status Running, or is neither Stopped nor
 * Archived and has a due time or a lease.
 */
export async function disksInUse(db: Db, disks: readonly DiskId[]): Promise<Set<string>> {
  const needed = new Set<string>();
  for (let from = 0; from < disks.length; from += AT_ONCE) {
    const some = disks.slice(from, from + AT_ONCE);
    const idsOf = (...kinds: DiskKind[]): string[] =>
      some.filter(({ kind }) => kinds.includes(kind)).map(({ id }) => id);
    for (const id of await ownersOfOwn(db, idsOf('data', 'docker'))) {
      needed.add(diskKey({ kind: 'data', id }));
      needed.add(diskKey({ kind: 'docker', id }));
    }
    for (const id of await accountsThatRun(db, idsOf('shared'))) needed.add(diskKey({ kind: 'shared', id }));
    for (const id of await volumesThatRun(db, idsOf('volume'))) needed.add(diskKey({ kind: 'volume', id }));
  }
  return needed;
}

const instancesInUse = (db: Db) =>
  db
    .selectFrom('instance')
    .where((row) =>
      row.or([
        row('desired', '=', 'running'),
        row('status', '=', 'Running'),
        row('status', 'not in', ['Stopped', 'Archived']).and(
          row.or([row('dueAtMs', 'is not', null), row('leaseOwner', 'is not', null)]),
        ),
      ]),
    );

async function ownersOfOwn(db: Db, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const rows = await instancesInUse(db).select('instance.id').where('instance.id', 'in', ids).execute();
  return rows.map(({ id }) => id);
}

async function accountsThatRun(db: Db, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const owners = [...new Set(ids.map((id) => ofShared(id).ownerId))];
  const rows = await instancesInUse(db)
    .select(['ownerId', 'regionId'])
    .distinct()
    .where('ownerId', 'in', owners)
    .where('listed', '=', sql.lit(1))
    .execute();
  return rows.map(({ ownerId, regionId }) => `${ownerId}/${regionId}`);
}

async function volumesThatRun(db: Db, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const rows = await instancesInUse(db)
    .innerJoin('mount', 'mount.instanceId', 'instance.id')
    .select('mount.volumeId')
    .distinct()
    .where('mount.volumeId', 'in', ids)
    .execute();
  return rows.map(({ volumeId }) => volumeId);
}

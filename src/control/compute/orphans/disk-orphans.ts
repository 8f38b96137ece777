/**
 * Finds disks without a row, for example after a restore from backup. The storage is listed before
 * the rows are read; a disk listed while it is destroyed is why an orphan must be found twice.
 */
import { diskKey, type DiskId, type PoolName } from '../../../domain/storage/disk.ts';
import { orphanIdOf, type Orphan } from '../../../domain/compute/orphan.ts';
import { StorageFault } from '../../../storage/contract.ts';
import { disksAmong, disksOfRegion } from '../../../store/tables/disks.ts';
import type { Db } from '../../../store/store.ts';
import { deleteOrphans, setOrphanNote, orphansOf, type OrphanObservation } from '../../../store/tables/orphans.ts';
import { raceAbort } from '../../../async/abort.ts';
import { publishOrphans } from './sweep.ts';
import { withDiskMutex } from '../../storage/ports.ts';
import { type PoolDrivers, type RegionDrivers, deadlineWithin, type TaskDeps } from '../../kernel/ports.ts';

const LIST_DEADLINE_MS = 60_000;
const DELETE_DEADLINE_MS = 600_000;
const PAGE_SIZE = 1_000;

interface DiskOrphan {
  pool: PoolDrivers;
  disk: DiskId;
}

const nameOf = ({ pool, disk }: DiskOrphan): string => `${pool.name}/${diskKey(disk)}`;

const strayId = (regionId: string, orphan: DiskOrphan): string =>
  orphanIdOf(regionId, { kind: 'disk', engineName: nameOf(orphan) });

/** Throws if a storage can't list its disks; then nothing changes. */
export async function sweepDisks(deps: TaskDeps, drivers: RegionDrivers): Promise<void> {
  const found = await findOrphans(deps, drivers);
  const observations = found.map((orphan) => observationOf(drivers.regionId, orphan));
  const text = 'found orphaned disks in the storage; POST /api/admin/stray/list lists them';
  await publishOrphans(deps, drivers.regionId, { kinds: ['disk'], observations, text });
}

async function findOrphans(deps: TaskDeps, { regionId, pools }: RegionDrivers): Promise<DiskOrphan[]> {
  const signal = deadlineWithin(deps, LIST_DEADLINE_MS);
  const all: DiskOrphan[] = [];
  for (const pool of pools)
    for (const disk of await raceAbort(pool.storage.listOwned(), signal)) all.push({ pool, disk });
  const knownPools = await poolsOfDisks(deps.store.read, regionId);
  return all.filter(({ pool, disk }) => knownPools.get(diskKey(disk)) !== pool.name);
}

async function poolsOfDisks(db: Db, regionId: string): Promise<Map<string, PoolName>> {
  const knownPools = new Map<string, PoolName>();
  for (let after = ''; ;) {
    const page = await disksOfRegion(db, regionId, after, PAGE_SIZE);
    for (const disk of page) knownPools.set(diskKey(disk), disk.pool);
    const last = page.at(-1);
    if (!last) return knownPools;
    after = diskKey(last);
  }
}

const observationOf = (regionId: string, orphan: DiskOrphan): OrphanObservation => ({
  id: strayId(regionId, orphan),
  regionId,
  kind: 'disk',
  engineName: nameOf(orphan),
  subjectId: orphan.disk.id,
  ownerId: orphan.disk.kind === 'shared' ? (orphan.disk.id.split('/')[0] ?? '') : '',
  imageRef: '',
  generation: 0,
  running: false,
  createdAtMs: 0,
});

export async function deleteDiskOrphans(deps: TaskDeps, drivers: RegionDrivers): Promise<void> {
  const orphans = await orphansOf(deps.store.read, drivers.regionId);
  const wanted = new Map(
    orphans
      .filter(({ kind, handling }) => kind === 'disk' && handling === 'delete')
      .map((orphan) => [orphan.id, orphan]),
  );
  if (wanted.size === 0) return;
  for (const one of await findOrphans(deps, drivers)) {
    const orphan = wanted.get(strayId(drivers.regionId, one));
    if (orphan && !deps.stopping.aborted) await deleteOne(deps, one, orphan, orphans);
  }
}

async function deleteOne(
  deps: TaskDeps,
  { pool: { name, storage }, disk }: DiskOrphan,
  { id }: Orphan,
  all: readonly Orphan[],
): Promise<void> {
  const { store, log, stopping } = deps;
  const signal = deadlineWithin(deps, DELETE_DEADLINE_MS);
  const note = (text: string): Promise<void> => store.write((tx) => setOrphanNote(tx, id, text));
  if (all.some(({ kind, subjectId }) => (kind === 'instance' || kind === 'docker') && subjectId === disk.id))
    return note('its instance is a stray, too: adopt or delete the instance first');
  const destroy = async (): Promise<boolean> => {
    const [knownPools] = await disksAmong(store.read, [disk]);
    if (knownPools?.pool === name) return false;
    await storage.destroy(disk);
    return true;
  };
  try {
    if (!(await withDiskMutex({ ...disk, storage }, destroy, signal))) return;
    await store.write((tx) => deleteOrphans(tx, [id]));
    log.warn({ orphan: id }, 'deleted an orphaned disk');
  } catch (error) {
    if (stopping.aborted) return;
    await note(error instanceof StorageFault ? error.message : 'could not be deleted yet; Berth retries');
    log.warn({ orphan: id, err: error }, 'could not handle an orphan; Berth retries');
  }
}

/**
 * What was measured of disks, shown on the instances that have them: bytes, and of those that are all but full what takes most of them.
 * Which instances that concerns is kept until it is written: one that a pass works on has its turn later.
 */
import { isFull, usedPercent } from '../../domain/disk-warnings.ts';
import { diskIdsOf, updateDiskUsage, type RootDiskUsage } from '../../domain/disk-usage.ts';
import { diskKey, inGB, type Disk, type DiskUsage, type FullDisk, type DiskEntry } from '../../domain/disk.ts';
import { instanceId, type InstanceId } from '../../domain/ids.ts';
import type { Instance } from '../../domain/instance.ts';
import { regionWithUsage } from '../../store/tables/catalog.ts';
import { instancesWithDisk } from '../../store/tables/disk-users.ts';
import { appendEvent, bumpVersion } from '../../store/tables/events.ts';
import { instanceFromRow, instanceRow, instanceRowsOfRegion, writeDiskUsage } from '../../store/tables/instances.ts';
import type { Db } from '../../store/store.ts';
import { findDisks, type LocatedDisk } from './disks.ts';
import type { DeedDeps } from '../base/task-deps.ts';

export interface DiskMeasurements {
  /** Another usage of it was written down. */
  usageChanged(before: Disk, after: Disk): Promise<void>;
  /** What takes most of it was found. */
  setLargest(disk: Disk, biggest: DiskEntry[]): Promise<void>;
  /** Of the others nothing is full any more, or they are gone. */
  retainFull(full: ReadonlySet<string>): void;
  /** The same of a root disk, and what it holds. */
  setRoot(id: InstanceId, root: RootDiskUsage): void;
  /** Writes on instances what is not on them yet. */
  publish(): Promise<void>;
}

const SIDE_BY_SIDE = 16;
const ROWS_AT_ONCE = 200;

export function makeDiskMeasurements({ store, regions, now, log, ending }: DeedDeps): DiskMeasurements {
  const biggest = new Map<string, DiskEntry[]>();
  const roots = new Map<InstanceId, RootDiskUsage>();
  const waiting = new Set<InstanceId>();
  let isFirst = true;

  /** Of all that a server before this one may have measured and not shown. */
  async function beginWithAll(): Promise<void> {
    for (const { regionId } of regions.all()) {
      for (let after = ''; ;) {
        const rows = await instanceRowsOfRegion(store.read, regionId, after, ROWS_AT_ONCE);
        for (const { id } of rows) waiting.add(instanceId(id));
        after = rows.at(-1)?.id ?? '';
        if (after === '') break;
      }
    }
    isFirst = false;
  }

  const usageNow = async (db: Db, instance: Instance): Promise<DiskUsage | null> => {
    const now = updateDiskUsage(instance, await findDisks(db, diskIdsOf(instance)), {
      root: roots.get(instance.id),
      biggest: (disk) => biggest.get(diskKey(disk)),
    });
    return JSON.stringify(now) === JSON.stringify(instance.diskUsage) ? null : now;
  };

  async function showOn(id: InstanceId): Promise<void> {
    // Before it is looked at: what changes meanwhile has it wait again.
    waiting.delete(id);
    const root = roots.get(id);
    const row = await instanceRow(store.read, id);
    // Most are as they were: nothing is held for those.
    if (row && (await usageNow(store.read, instanceFromRow(row)))) {
      const written = await store.write((tx) => write(tx, instanceFromRow(row)));
      if (!written) return void waiting.add(id);
    }
    if (roots.get(id) === root) roots.delete(id);
  }

  async function write(tx: Db, of: Instance): Promise<boolean> {
    const counted = await regionWithUsage(tx, of.spec.regionId);
    if (!counted) return true;
    const told: Filling[] = [];
    let isOther = false;
    const written = await writeDiskUsage(tx, of, counted.region, async (instance) => {
      const next = await usageNow(tx, instance);
      isOther = next !== null;
      if (next && next.rootWarnedPercent > instance.diskUsage.rootWarnedPercent) told.push(fillingRoot(instance, next));
      return next;
    });
    for (const one of told) await tell(tx, now(), one);
    if (isOther && told.length === 0) await bumpVersion(tx, of.ownerId);
    return written;
  }

  function fillingRoot({ id, ownerId, spec }: Instance, { rootBytes, full }: DiskUsage): Filling {
    const { probe } = regions.of(spec.regionId).seen;
    return {
      kind: 'root',
      subjectId: id,
      ownerId,
      sizeGB: spec.type.rootDiskGB,
      usageBytes: rootBytes,
      sizeLimit: probe?.capabilities.rootDiskLimit === 'hard' ? 'hard' : 'soft',
      biggest: full.find(({ disk }) => disk === 'root')?.biggest ?? [],
    };
  }

  return {
    async usageChanged(before, after) {
      if (before.kind === 'data' || before.kind === 'docker') waiting.add(instanceId(before.id));
      else if (isFull(before) || isFull(after))
        for (const id of await instancesWithDisk(store.read, before)) waiting.add(instanceId(id));
    },
    async setLargest(disk, parts) {
      biggest.set(diskKey(disk), parts);
      for (const id of await instancesWithDisk(store.read, disk)) waiting.add(instanceId(id));
    },
    retainFull(full) {
      for (const key of biggest.keys()) if (!full.has(key)) biggest.delete(key);
    },
    setRoot(id, root) {
      roots.set(id, root);
      waiting.add(id);
    },
    async publish() {
      if (isFirst) await beginWithAll();
      const ids = [...waiting];
      for (let from = 0; from < ids.length && !ending.aborted; from += SIDE_BY_SIDE) {
        const some = ids.slice(from, from + SIDE_BY_SIDE).map(async (id) => {
          try {
            await showOn(id);
          } catch (error) {
            waiting.add(id);
            log.warn({ id, err: error }, 'what the disks of an instance hold could not be written down yet');
          }
        });
        await Promise.all(some);
      }
    },
  };
}

/** Tells its owner that it fills up. */
export async function publishDiskWarning(
  tx: Db,
  nowMs: number,
  disk: LocatedDisk,
  biggest: readonly DiskEntry[],
): Promise<void> {
  const { sizeLimit } = disk.storage.capabilities();
  await tell(tx, nowMs, { ...disk, subjectId: disk.id, sizeLimit, biggest });
}

interface Filling extends Pick<Disk, 'ownerId' | 'sizeGB' | 'usageBytes'> {
  kind: FullDisk['disk'];
  subjectId: string;
  sizeLimit: 'hard' | 'soft';
  biggest: readonly DiskEntry[];
}

async function tell(tx: Db, atMs: number, filling: Filling): Promise<void> {
  const { kind, subjectId, ownerId, sizeLimit, biggest, ...disk } = filling;
  const data = {
    disk: kind,
    percent: usedPercent(disk),
    usageGB: inGB(disk.usageBytes),
    sizeGB: disk.sizeGB,
    sizeLimit,
    biggest: biggest.map(({ path, bytes }) => ({ path, usageGB: inGB(bytes) })),
  };
  await appendEvent(tx, { accountId: ownerId, atMs, kind: 'disk.nearlyFull', subjectId, data });
}

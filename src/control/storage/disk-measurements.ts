/** Publishes disk usage, and the largest folders of full disks, on the instances that use them. */
import { instanceRowsOfRegion } from '../../store/tables/instance-queries.ts';
import {
  isFull,
  usedPercent,
  diskIdsOf,
  updateDiskUsage,
  type RootDiskUsage,
} from '../../domain/storage/disk-usage.ts';
import {
  diskKey,
  inGB,
  type Disk,
  type DiskUsage,
  type FullDisk,
  type DiskEntry,
  type SizeLimit,
} from '../../domain/storage/disk.ts';
import { instanceId, type InstanceId } from '../../domain/kernel/ids.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import { regionWithUsage } from '../../store/tables/catalog.ts';
import { instancesWithDisk } from '../../store/tables/disk-users.ts';
import { appendEvent, bumpVersion } from '../../store/tables/events.ts';
import { instanceFromRow, instanceRow, writeDiskUsage } from '../../store/tables/instances.ts';
import type { Db } from '../../store/store.ts';
import { findDisks, type LocatedDisk } from './disks.ts';
import type { TaskDeps } from '../kernel/ports.ts';

export interface DiskMeasurements {
  usageChanged(before: Disk, after: Disk): Promise<void>;
  setLargest(disk: Disk, largest: DiskEntry[]): Promise<void>;
  /** Drops scan results of disks that are not in `full`, a set of disk keys. */
  retainFull(full: ReadonlySet<string>): void;
  setRoot(id: InstanceId, root: RootDiskUsage): void;
  publish(): Promise<void>;
}

const CONCURRENCY = 16;
/** 25 a second at most: 100,000 instances take an hour and 0.2 % of a core. */
const PAGE_SIZE = 500;

export function makeDiskMeasurements({ store, regions, time, log, stopping }: TaskDeps): DiskMeasurements {
  const largest = new Map<string, DiskEntry[]>();
  const roots = new Map<InstanceId, RootDiskUsage>();
  const queued = new Set<InstanceId>();
  const cursors = new Map(regions.all().map(({ regionId }) => [regionId, '']));

  /**
   * Queues every instance once, a page per publication: the last process may have stopped before
   * publishing.
   */
  async function queueNextPage(): Promise<void> {
    for (const [regionId, after] of cursors) {
      const rows = await instanceRowsOfRegion(store.read, regionId, after, PAGE_SIZE);
      for (const { id } of rows) queued.add(instanceId(id));
      const last = rows.at(-1);
      if (last) cursors.set(regionId, last.id);
      else cursors.delete(regionId);
    }
  }

  const changedUsage = async (db: Db, instance: Instance): Promise<DiskUsage | null> => {
    const now = updateDiskUsage(instance, await findDisks(db, diskIdsOf(instance)), {
      root: roots.get(instance.id),
      biggest: (disk) => largest.get(diskKey(disk)),
    });
    return JSON.stringify(now) === JSON.stringify(instance.diskUsage) ? null : now;
  };

  async function publishOn(id: InstanceId): Promise<void> {
    // Dequeue before reading: a change meanwhile queues the instance again.
    queued.delete(id);
    const root = roots.get(id);
    const row = await instanceRow(store.read, id);
    if (row && (await changedUsage(store.read, instanceFromRow(row)))) {
      const written = await store.write((tx) => write(tx, instanceFromRow(row)));
      if (!written) return void queued.add(id);
    }
    if (roots.get(id) === root) roots.delete(id);
  }

  async function write(tx: Db, measured: Instance): Promise<boolean> {
    const counted = await regionWithUsage(tx, measured.spec.regionId);
    if (!counted) return true;
    const warnings: DiskWarning[] = [];
    let changed = false;
    const written = await writeDiskUsage(tx, measured, counted.region, async (instance) => {
      const next = await changedUsage(tx, instance);
      changed = next !== null;
      if (next && next.rootWarnedPercent > instance.diskUsage.rootWarnedPercent)
        warnings.push(rootDiskWarning(instance, next));
      return next;
    });
    for (const one of warnings) await appendWarning(tx, time.now(), one);
    if (changed && warnings.length === 0) await bumpVersion(tx, measured.ownerId);
    return written;
  }

  function rootDiskWarning({ id, ownerId, spec }: Instance, { rootBytes, full }: DiskUsage): DiskWarning {
    const { probe } = regions.of(spec.regionId).health;
    return {
      kind: 'root',
      subjectId: id,
      ownerId,
      sizeGB: spec.type.rootDiskGB,
      usageBytes: rootBytes,
      sizeLimit: probe?.capabilities.rootDiskLimit === 'hard' ? 'hard' : 'soft',
      largest: full.find(({ disk }) => disk === 'root')?.biggest ?? [],
    };
  }

  return {
    async usageChanged(before, after) {
      if (before.kind === 'data' || before.kind === 'docker') queued.add(instanceId(before.id));
      else if (isFull(before) || isFull(after))
        for (const id of await instancesWithDisk(store.read, before)) queued.add(instanceId(id));
    },
    async setLargest(disk, parts) {
      largest.set(diskKey(disk), parts);
      for (const id of await instancesWithDisk(store.read, disk)) queued.add(instanceId(id));
    },
    retainFull(full) {
      for (const key of largest.keys()) if (!full.has(key)) largest.delete(key);
    },
    setRoot(id, root) {
      roots.set(id, root);
      queued.add(id);
    },
    async publish() {
      await queueNextPage();
      const ids = [...queued];
      for (let from = 0; from < ids.length && !stopping.aborted; from += CONCURRENCY) {
        const batch = ids.slice(from, from + CONCURRENCY).map(async (id) => {
          try {
            await publishOn(id);
          } catch (error) {
            queued.add(id);
            log.warn({ id, err: error }, 'could not publish the disk usage of an instance; Berth retries');
          }
        });
        await Promise.all(batch);
      }
    },
  };
}

/** Appends `disk.nearlyFull` to the owner's events. */
export async function publishDiskWarning(
  tx: Db,
  nowMs: number,
  disk: LocatedDisk,
  largest: readonly DiskEntry[],
): Promise<void> {
  const { sizeLimit } = disk.storage.capabilities();
  await appendWarning(tx, nowMs, { ...disk, subjectId: disk.id, sizeLimit, largest });
}

interface DiskWarning extends Pick<Disk, 'ownerId' | 'sizeGB' | 'usageBytes'> {
  kind: FullDisk['disk'];
  subjectId: string;
  sizeLimit: SizeLimit;
  largest: readonly DiskEntry[];
}

async function appendWarning(tx: Db, atMs: number, warning: DiskWarning): Promise<void> {
  const { kind, subjectId, ownerId, sizeLimit, largest, ...disk } = warning;
  const data = {
    disk: kind,
    percent: usedPercent(disk),
    usageGB: inGB(disk.usageBytes),
    sizeGB: disk.sizeGB,
    sizeLimit,
    biggest: largest.map(({ path, bytes }) => ({ path, usageGB: inGB(bytes) })),
  };
  await appendEvent(tx, { accountId: ownerId, atMs, kind: 'disk.nearlyFull', subjectId, data });
}

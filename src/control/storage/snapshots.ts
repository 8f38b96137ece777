/** Use cases of snapshots, which lie in the pool of their volume. */
import { promised } from '../../domain/storage/disk.ts';
import { snapshotId } from '../../domain/kernel/ids.ts';
import { beginOperation, FIRST_GENERATION, operationId } from '../../domain/compute/operation.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { publicSnapshot, type Snapshot } from '../../domain/storage/snapshot.ts';
import { rateOfSnapshot } from '../../domain/money/meter.ts';
import { usageOfSnapshot } from '../../domain/access/quota.ts';
import {
  countSnapshots,
  lockSnapshot,
  insertSnapshot,
  snapshotTexts,
  requestSnapshotDeletion,
} from '../../store/tables/snapshots.ts';
import type { Db } from '../../store/store.ts';
import { poolNamed, allotDisk, refuseWithoutCopies } from './disks.ts';
import { createCopy, lockSourceDisk, type CopyRequest } from './new-volume.ts';
import { lockVolume, refuseUnlessBound, type VolumeDeps } from './volumes.ts';
import { requestReconcile, type Caller, type LongRunning, type Pager, type TextPage } from '../kernel/ports.ts';
import { meteredStorage } from '../money/ports.ts';

export interface Snapshots {
  /** Works while the volume is mounted and written to. */
  create: LongRunning<{ volumeId: string; name: string }, { snapshotText: string }>;
  list(caller: Caller, pager: Pager): Promise<TextPage<string>>;
  /** Keeps volumes restored from it. A restore in progress finishes first. */
  delete: LongRunning<{ id: string }, { id: string }>;
  restore: LongRunning<CopyRequest, { volumeText: string }>;
}

async function lockSnapshotOrThrow(tx: Db, accountId: string, id: string): Promise<Snapshot> {
  const snapshot = await lockSnapshot(tx, accountId, id);
  if (snapshot) return snapshot;
  throw new Refusal('not_found', `snapshot ${id} not found; POST /api/storage/snapshot/list lists yours`);
}

export const makeSnapshots = (deps: VolumeDeps): Snapshots => {
  const { store, regions, freeSpace, randomUuid } = deps;
  return {
    create: ({ accountId, username }, { volumeId, name }, idempotency) =>
      requestReconcile(deps, { subject: 'snapshot' }, accountId, idempotency, async (tx, nowMs) => {
        const volume = await lockVolume(tx, accountId, volumeId);
        refuseUnlessBound(volume, 'take a snapshot of');
        const { regionId, sizeGB } = volume;
        const drivers = regions.of(regionId);
        const pool = poolNamed(drivers, (await lockSourceDisk(tx, { kind: 'volume', id: volumeId })).pool);
        refuseWithoutCopies(pool, `take a snapshot of volume ${volumeId}`);
        freeSpace.refuseIfNearlyFull([pool]);
        const snapshot: Snapshot = {
          id: snapshotId(randomUuid()),
          ownerId: volume.ownerId,
          ownerName: username,
          createdAtMs: nowMs,
          name,
          regionId,
          volumeId: volume.id,
          volumeName: volume.name,
          volumeType: volume.type,
          sizeGB,
          consistency: pool.storage.capabilities().copies,
          status: 'Pending',
          generation: FIRST_GENERATION,
          operation: beginOperation('createSnapshot', 'user', nowMs),
        };
        if (!(await insertSnapshot(tx, snapshot, nowMs))) throw new Refusal('name_taken', 'Snapshot already exists');
        const { id, ownerId } = snapshot;
        const disk = { kind: 'snapshot' as const, id, regionId, pool: pool.name, ownerId, ...promised(sizeGB) };
        await allotDisk(tx, pool, disk, `the snapshot needs ${sizeGB} GB`);
        const data = { name, volumeId, sizeGB };
        const usage = { before: {}, after: usageOfSnapshot(snapshot), mayRefuse: true };
        const event = { accountId, atMs: nowMs, kind: 'snapshot.created', subjectId: id, data, usage };
        const rates = { before: null, after: rateOfSnapshot(snapshot) };
        await deps.metering.appendEvent(tx, event, meteredStorage(snapshot), rates);
        const snapshotText = JSON.stringify(publicSnapshot(snapshot));
        return { snapshotText, operationId: operationId(id, FIRST_GENERATION) };
      }),

    async list({ accountId }, { currentPage, pageSize }) {
      const totalEntries = await countSnapshots(store.read, accountId);
      const offset = (currentPage - 1) * pageSize;
      const texts = offset < totalEntries ? await snapshotTexts(store.read, accountId, offset, pageSize) : [];
      return { texts, totalEntries };
    },

    delete: ({ accountId }, { id }, idempotency) =>
      requestReconcile(deps, { subject: 'snapshot' }, accountId, idempotency, async (tx, nowMs) => {
        const snapshot = await lockSnapshotOrThrow(tx, accountId, id);
        const deleted: Snapshot = {
          ...snapshot,
          status: 'Terminating',
          generation: snapshot.generation + 1,
          operation: beginOperation('deleteSnapshot', 'user', nowMs),
        };
        await requestSnapshotDeletion(tx, snapshot, deleted, nowMs);
        const data = { name: snapshot.name };
        const usage = { before: usageOfSnapshot(snapshot), after: {}, mayRefuse: false };
        const event = { accountId, atMs: nowMs, kind: 'snapshot.deleted', subjectId: id, data, usage };
        const rates = { before: rateOfSnapshot(snapshot), after: null };
        await deps.metering.appendEvent(tx, event, meteredStorage(snapshot), rates);
        return { id, operationId: operationId(id, deleted.generation) };
      }),

    restore: (caller, body, idempotency) =>
      requestReconcile(deps, { subject: 'volume' }, caller.accountId, idempotency, async (tx, nowMs) => {
        const snapshot = await lockSnapshotOrThrow(tx, caller.accountId, body.id);
        const { id, status, volumeType: type } = snapshot;
        if (status === 'Pending')
          throw new Refusal('not_now', `snapshot ${id} is Pending: it is still being taken; restore when it is Ready`);
        if (status === 'Failed')
          throw new Refusal('not_now', `snapshot ${id} is Failed: it has no files; delete it, and take another`);
        return createCopy(tx, deps, caller, { ...snapshot, type, kind: 'snapshot' }, body, nowMs);
      }),
  };
};

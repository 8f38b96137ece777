/** Snapshots of claims, and claims with the content of one. */
import type { DiskId } from '../../domain/storage/disk.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { PersistentVolumeClaim, VolumeSnapshot } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { diskNotFound, StorageFault } from '../contract.ts';
import { asStorageFault, poll } from './claim-faults.ts';
import { claimManifest, snapshotManifest, type ClaimClass } from './claim-manifests.ts';
import { copySourceName, isOwned, objectName } from './claim-names.ts';
import { isBound, isReady } from './claim-observation.ts';
import type { ClassReader } from './class-facts.ts';
import type { FilesPods } from './files-pods.ts';

/** A driver that reports an error for so long will not recover by itself. */
const ERROR_PATIENCE_MS = 60_000;
const CLEAN_DEADLINE_MS = 60_000;
/** Below the time that an instance gives a disk. */
const BIND_PATIENCE_MS = 40_000;

interface CopyOptions {
  cluster: Cluster;
  claimClass: ClaimClass;
  facts: Pick<ClassReader, 'read'>;
  pods: Pick<FilesPods, 'start' | 'end' | 'untilGone'>;
  elapsed: () => number;
}

export interface ClaimCopies {
  /** Returns once the volume of the claim exists. */
  bind(disk: DiskId, signal: AbortSignal): Promise<PersistentVolumeClaim>;
  /** Makes a claim with the content of `from`, which is complete when this returns. */
  copy(disk: DiskId, sizeGB: number, from: DiskId, signal: AbortSignal): Promise<void>;
  /** Makes a snapshot of the claim `from`. */
  snapshot(disk: DiskId, from: DiskId, signal: AbortSignal): Promise<void>;
  removeSnapshot(name: string, signal: AbortSignal): Promise<void>;
}

export function makeClaimCopies({ cluster, claimClass: at, facts, pods, elapsed }: CopyOptions): ClaimCopies {
  async function requireSnapshotClass(): Promise<string> {
    const { snapshotClass, whyNoCopies = 'the class has no snapshots' } = await facts.read();
    if (snapshotClass === undefined) throw new StorageFault('unsupported', whyNoCopies);
    return snapshotClass;
  }

  async function requireSource(from: DiskId, signal: AbortSignal): Promise<void> {
    const claim = await cluster.get(resources.claims, objectName(from), signal);
    if (claim === null || !isOwned(claim, at) || isLeaving(claim)) throw diskNotFound(from);
    // A claim that no Pod has used has no volume yet.
    if (!isBound(claim)) await bind(from, signal);
  }

  async function bind(disk: DiskId, signal: AbortSignal): Promise<PersistentVolumeClaim> {
    const { bindsAtUse } = await facts.read();
    if (bindsAtUse) await pods.start(disk, signal);
    const name = objectName(disk);
    const sinceMs = elapsed();
    return poll(async () => {
      const claim = await cluster.get(resources.claims, name, signal);
      if (claim === null || isLeaving(claim)) throw diskNotFound(disk);
      if (isBound(claim)) return claim;
      if (elapsed() - sinceMs < BIND_PATIENCE_MS) return undefined;
      const text = `the cluster has not made its volume yet (claim ${name}); Berth retries`;
      throw new StorageFault('away', text);
    }, signal);
  }

  async function makeSnapshot(disk: DiskId, name: string, of: DiskId, signal: AbortSignal): Promise<void> {
    const snapshotClass = await requireSnapshotClass();
    const manifest = snapshotManifest(at, disk, { name, snapshotClass, of: objectName(of) });
    await cluster.create(resources.snapshots, manifest, signal).catch((error: unknown) => {
      if (!isFailure(error, 'exists')) throw error;
    });
    let failingSinceMs: number | null = null;
    await poll(async () => {
      const snapshot = await cluster.get(resources.snapshots, name, signal);
      if (snapshot === null || isLeaving(snapshot)) throw new Error(`the snapshot ${name} was removed meanwhile`);
      if (!isOwned(snapshot, at)) throw new Error(`the snapshot ${name} is not of this installation`);
      if (isReady(snapshot)) return true;
      const message = snapshot.status?.error?.message;
      failingSinceMs = message === undefined ? null : (failingSinceMs ?? elapsed());
      if (failingSinceMs !== null && elapsed() - failingSinceMs > ERROR_PATIENCE_MS)
        throw new Error(`the snapshot ${name} is not ready: ${message}`);
      return undefined;
    }, signal);
  }

  async function removeSnapshot(name: string, signal: AbortSignal): Promise<void> {
    const snapshot = await getSnapshot(name, signal);
    if (snapshot === null || !isOwned(snapshot, at)) return;
    await cluster.remove(resources.snapshots, name, signal, { uid: snapshot.metadata?.uid });
    await poll(async () => ((await getSnapshot(name, signal)) === null ? true : undefined), signal);
  }

  /** Null also where the cluster has no such resource. */
  const getSnapshot = (name: string, signal: AbortSignal): Promise<VolumeSnapshot | null> =>
    cluster.get(resources.snapshots, name, signal);

  async function discard(disk: DiskId): Promise<void> {
    const signal = AbortSignal.timeout(CLEAN_DEADLINE_MS);
    const name = objectName(disk);
    await pods.end(disk);
    await pods.untilGone(disk, signal);
    await cluster.remove(resources.claims, name, signal);
    await poll(async () => ((await cluster.get(resources.claims, name, signal)) === null ? true : undefined), signal);
    await removeSnapshot(copySourceName(disk), signal);
  }

  async function copyFrom(disk: DiskId, sizeGB: number, from: DiskId, signal: AbortSignal): Promise<void> {
    const own = from.kind === 'snapshot' ? null : copySourceName(disk);
    if (own !== null) await makeSnapshot(disk, own, from, signal);
    const manifest = claimManifest(at, disk, sizeGB, own ?? objectName(from));
    await cluster.create(resources.claims, manifest, signal).catch((error: unknown) => {
      if (!isFailure(error, 'exists')) throw error;
    });
    await bind(disk, signal);
    await pods.end(disk);
    if (own !== null) await removeSnapshot(own, signal);
  }

  return {
    bind,
    async copy(disk, sizeGB, from, signal) {
      await requireSnapshotClass();
      if (from.kind !== 'snapshot') await requireSource(from, signal);
      else {
        const snapshot = await getSnapshot(objectName(from), signal);
        if (snapshot === null || !isOwned(snapshot, at) || isLeaving(snapshot) || !isReady(snapshot))
          throw diskNotFound(from);
      }
      try {
        await copyFrom(disk, sizeGB, from, signal);
      } catch (error) {
        // A driver that is slow goes on: the next call waits for the same claim.
        const mayPass = asStorageFault(error);
        if (mayPass instanceof StorageFault && mayPass.kind === 'away') throw error;
        // Remains are listed, and go with the next `destroy`.
        await discard(disk).catch(() => {});
        throw error;
      }
    },
    async snapshot(disk, from, signal) {
      await requireSnapshotClass();
      if (from.kind === 'snapshot')
        throw new StorageFault('unsupported', 'a snapshot is taken of a volume, not of a snapshot');
      await requireSource(from, signal);
      const name = objectName(disk);
      try {
        await makeSnapshot(disk, name, from, signal);
      } catch (error) {
        await removeSnapshot(name, AbortSignal.timeout(CLEAN_DEADLINE_MS)).catch(() => {});
        throw error;
      }
    },
    removeSnapshot,
  };
}

const isLeaving = ({ metadata }: PersistentVolumeClaim | VolumeSnapshot): boolean =>
  metadata?.deletionTimestamp !== undefined;

/** Verbs that change a claim, or need a complete one. */
import { BYTES_PER_GB, type DiskId } from '../../domain/storage/disk.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { PersistentVolumeClaim } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { diskNotFound, StorageFault } from '../contract.ts';
import { requireDiskId } from '../layout.ts';
import type { ClaimCopies } from './claim-copies.ts';
import { poll } from './claim-faults.ts';
import { bytesOfQuantity, claimManifest, sizeText, type ClaimClass } from './claim-manifests.ts';
import { copySourceName, isOwned, objectName } from './claim-names.ts';
import { hasBytes, isBound, isComplete, requestOf, resizeState } from './claim-observation.ts';
import type { ClassReader } from './class-facts.ts';
import type { FilesPods } from './files-pods.ts';

export interface ClaimContext {
  cluster: Cluster;
  at: ClaimClass;
  facts: ClassReader;
  pods: FilesPods;
  copies: ClaimCopies;
}

async function findClaim(
  { cluster, at }: ClaimContext,
  disk: DiskId,
  signal: AbortSignal,
): Promise<PersistentVolumeClaim | null> {
  const name = objectName(disk);
  const claim = await cluster.get(resources.claims, name, signal);
  if (claim === null || isOwned(claim, at)) return claim;
  throw new Error(`the claim ${name} is not of this installation and pool`);
}

/** Throws unless the disk is complete. */
export async function requireClaim(
  context: ClaimContext,
  disk: DiskId,
  signal: AbortSignal,
): Promise<PersistentVolumeClaim> {
  requireDiskId(disk);
  const { facts, cluster } = context;
  if (disk.kind === 'snapshot') {
    if ((await cluster.get(resources.snapshots, objectName(disk), signal)) === null) throw diskNotFound(disk);
    throw new StorageFault('unsupported', 'the files of a snapshot are reached by a volume that is restored from it');
  }
  const claim = await findClaim(context, disk, signal);
  if (claim === null || claim.metadata?.deletionTimestamp !== undefined) throw diskNotFound(disk);
  if (!isComplete(claim, await facts.read())) throw diskNotFound(disk);
  return claim;
}

export async function createDisk(
  context: ClaimContext,
  disk: DiskId,
  sizeGB: number,
  signal: AbortSignal,
  from?: DiskId,
): Promise<void> {
  requireDiskId(disk);
  const { copies } = context;
  if (disk.kind === 'snapshot') {
    if (from === undefined) throw new StorageFault('unsupported', 'a snapshot is taken of a volume');
    return copies.snapshot(disk, from, signal);
  }
  if (from === undefined) return createEmpty(context, disk, sizeGB, signal);
  if (!(await isCreated(context, disk, signal))) await copies.copy(disk, sizeGB, from, signal);
}

async function isCreated(context: ClaimContext, disk: DiskId, signal: AbortSignal): Promise<boolean> {
  const found = await findClaim(context, disk, signal);
  if (found?.metadata?.deletionTimestamp !== undefined)
    throw new StorageFault('busy', `the ${disk.kind} disk ${disk.id} is being removed`);
  return found !== null && isComplete(found, await context.facts.read());
}

async function createEmpty(context: ClaimContext, disk: DiskId, sizeGB: number, signal: AbortSignal): Promise<void> {
  const { cluster, at, facts, copies } = context;
  const { bindsAtUse } = await facts.read();
  try {
    await cluster.create(resources.claims, claimManifest(at, disk, sizeGB), signal);
  } catch (error) {
    if (!isFailure(error, 'exists')) throw error;
    if (await isCreated(context, disk, signal)) return;
  }
  if (!bindsAtUse) await copies.bind(disk, signal);
}

/** True: the disk has the size, or gets it when its claim is bound. */
export function isGrown(claim: PersistentVolumeClaim, sizeGB: number): boolean {
  const bytes = sizeGB * BYTES_PER_GB;
  return hasRequested(claim, bytes) && (!isBound(claim) || hasBytes(claim, bytes));
}

const hasRequested = (claim: PersistentVolumeClaim, bytes: number): boolean =>
  (bytesOfQuantity(requestOf(claim)) ?? 0) >= bytes;

/** `found`: the claim as it is. */
export async function growDisk(
  context: ClaimContext,
  disk: DiskId,
  found: PersistentVolumeClaim,
  sizeGB: number,
  signal: AbortSignal,
): Promise<void> {
  const { cluster, facts, copies } = context;
  let claim = found;
  const bytes = sizeGB * BYTES_PER_GB;
  if (!hasRequested(claim, bytes)) {
    const { whyNoGrowth } = await facts.read();
    if (whyNoGrowth !== undefined) throw new StorageFault('unsupported', whyNoGrowth);
    if (!isBound(claim)) await copies.bind(disk, signal);
    const changes = { spec: { resources: { requests: { storage: sizeText(sizeGB) } } } };
    claim = await cluster.patch(resources.claims, objectName(disk), changes, signal);
  }
  if (isBound(claim)) await untilGrown(context, disk, bytes, signal);
}

async function untilGrown(context: ClaimContext, disk: DiskId, bytes: number, signal: AbortSignal): Promise<void> {
  const { pods } = context;
  const name = objectName(disk);
  await poll(async () => {
    const claim = await findClaim(context, disk, signal);
    if (claim === null) throw diskNotFound(disk);
    if (hasBytes(claim, bytes)) return true;
    const { waitsForPod, failed } = resizeState(claim);
    if (failed !== null) throw new Error(`the claim ${name} does not grow: ${failed}`);
    // The file system grows on a node that mounts it.
    if (waitsForPod && (await pods.othersUsing(name, signal)).length === 0) await pods.start(disk, signal);
    return undefined;
  }, signal);
}

export async function destroyDisk(
  { cluster, at, pods, copies }: ClaimContext,
  disk: DiskId,
  signal: AbortSignal,
): Promise<void> {
  requireDiskId(disk);
  const name = objectName(disk);
  if (disk.kind === 'snapshot') return copies.removeSnapshot(name, signal);
  const claim = await cluster.get(resources.claims, name, signal);
  if (claim !== null && isOwned(claim, at)) {
    const users = (await pods.othersUsing(name, signal)).map(({ metadata }) => metadata?.name).join(', ');
    if (users !== '')
      throw new StorageFault(
        'busy',
        `the ${disk.kind} disk ${disk.id} is in use`,
        new Error(`Pods mount it: ${users}`),
      );
    await pods.end(disk);
    await pods.untilGone(disk, signal);
    await cluster.remove(resources.claims, name, signal, { uid: claim.metadata?.uid });
    await poll(async () => ((await cluster.get(resources.claims, name, signal)) === null ? true : undefined), signal);
  }
  await copies.removeSnapshot(copySourceName(disk), signal);
}

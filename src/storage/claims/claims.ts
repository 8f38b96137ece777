/**
 * # Disks as PersistentVolumeClaims
 *
 * A disk is a claim of the pool's storage class, a snapshot a VolumeSnapshot. `mount` returns the
 * claim's name, which the engine mounts into the instance's Pod. A class that binds at the first
 * use makes the volume then; copies and growth bind it before. Files are reached by a Pod that
 * mounts the claim (`files-pods.ts`). Limits of a class are capabilities with their reason.
 */
import { diskKey, BYTES_PER_GB, type DiskId, type SizeLimit } from '../../domain/storage/disk.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import type { ApiObject } from '../../kubernetes/api-objects.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { StorageFault, type DiskObservation, type Storage } from '../contract.ts';
import { largestShellEntries, shellFiles } from '../files.ts';
import { requireDiskId } from '../layout.ts';
import { makeClaimCopies } from './claim-copies.ts';
import { asStorageFault, withStorageFaults } from './claim-faults.ts';
import { makeClaimLists, type ClaimLists } from './claim-lists.ts';
import type { ClaimClass, FilesPodPlacement } from './claim-manifests.ts';
import { diskOf, isOwned, objectName } from './claim-names.ts';
import { observedClaim, observedSnapshot } from './claim-observation.ts';
import { makeClaimUsage } from './claim-usage.ts';
import { createDisk, destroyDisk, growDisk, isGrown, requireClaim, type ClaimContext } from './claim-verbs.ts';
import { makeClassReader, type ClassNames } from './class-facts.ts';
import { makeFilesPods } from './files-pods.ts';

export interface ClaimOptions extends ClaimClass, ClassNames {
  cluster: Cluster;
  /** Lists that the pools of a region share; default: own ones. */
  lists?: ClaimLists;
  /** Size of the pool, in units of 2³⁰ bytes. */
  sizeGB: number;
  /** Whether volumes of the class fail writes past their size. */
  sizeLimit: SizeLimit;
  dockerInside: boolean;
  /** Image with a shell and the tools of BusyBox or GNU, for access to files. */
  filesImage: string;
  /** Nodes that Pods for files may run on; default: all. */
  placement?: FilesPodPlacement;
  /** Files are closed after this time without a request. */
  filesIdleMs?: number;
  /** Monotonic milliseconds. */
  elapsed?: () => number;
  /** Age of an answer about usage that is still used. */
  usageAgeMs?: number;
}

const DEADLINE_MS = 20_000;
const GROW_DEADLINE_MS = 300_000;
const DESTROY_DEADLINE_MS = 120_000;
const FILES_IDLE_MS = 30_000;

export function makeClaimStorage(options: ClaimOptions): Storage {
  const { cluster, sizeLimit, dockerInside, accessMode, sizeGB: poolGB, elapsed = () => performance.now() } = options;
  const { filesImage: image, placement, filesIdleMs: idleMs = FILES_IDLE_MS } = options;
  const facts = makeClassReader(cluster, options, elapsed);
  const lists = options.lists ?? makeClaimLists(cluster, options.installation, elapsed);
  const pods = makeFilesPods({ cluster, owner: options, pods: lists.pods, image, placement, idleMs, elapsed });
  const copies = makeClaimCopies({ cluster, claimClass: options, facts, pods, elapsed });
  const usage = makeClaimUsage(cluster, lists, { elapsed, ageMs: options.usageAgeMs });
  const context: ClaimContext = { cluster, at: options, facts, pods, copies };

  /** A change makes lists old, also one that fails. */
  const changing = <T>(verb: () => Promise<T>): Promise<T> =>
    withStorageFaults(() =>
      verb().finally(() => {
        lists.claims.invalidate();
        lists.snapshots.invalidate();
      }),
    );

  const ownClaims = async () => (await lists.claims.list()).filter((claim) => isOwned(claim, options));
  /** None where the cluster has no such resource. */
  const ownSnapshots = async () => {
    if ((await facts.read()).snapshotClass === undefined) return [];
    return (await lists.snapshots.list()).filter((snapshot) => isOwned(snapshot, options));
  };

  async function observe(disk: DiskId): Promise<DiskObservation> {
    requireDiskId(disk);
    const isNamed = ({ metadata }: ApiObject): boolean => metadata?.name === objectName(disk);
    try {
      if (disk.kind === 'snapshot') return observedSnapshot((await ownSnapshots()).find(isNamed) ?? null);
      return observedClaim((await ownClaims()).find(isNamed) ?? null, await facts.read());
    } catch (error) {
      const fault = asStorageFault(error);
      return { kind: 'unknown', reason: errorText(fault), ...(fault instanceof StorageFault ? { fault } : {}) };
    }
  }

  return {
    capabilities() {
      const { whyNoGrowth, whyNoCopies } = facts.last() ?? {};
      return {
        sizeLimit,
        usage: 'mounted',
        copies: 'atomic',
        dockerInside,
        ...(accessMode === 'ReadWriteOnce' ? { oneNode: true as const } : {}),
        ...(whyNoCopies === undefined ? {} : { whyNoCopies }),
        ...(whyNoGrowth === undefined ? {} : { whyNoGrowth }),
      };
    },
    create: (disk, sizeGB, signal, from) => changing(() => createDisk(context, disk, sizeGB, signal, from)),
    grow: (disk, sizeGB) =>
      withStorageFaults(async () => {
        const signal = AbortSignal.timeout(GROW_DEADLINE_MS);
        // Each start asks: lists stay valid unless the disk grows.
        const claim = await requireClaim(context, disk, signal);
        if (!isGrown(claim, sizeGB)) await changing(() => growDisk(context, disk, claim, sizeGB, signal));
      }),
    mount: (disk) =>
      withStorageFaults(async () => {
        await requireClaim(context, disk, AbortSignal.timeout(DEADLINE_MS));
        return objectName(disk);
      }),
    files: (disk) =>
      withStorageFaults(async () => {
        await requireClaim(context, disk, AbortSignal.timeout(DEADLINE_MS));
        return shellFiles(pods.shell(disk));
      }),
    unmount: (disk) =>
      withStorageFaults(async () => {
        requireDiskId(disk);
        await pods.end(disk);
      }),
    observe,
    usage: (disk) =>
      withStorageFaults(async () => {
        requireDiskId(disk);
        return disk.kind === 'snapshot' ? null : usage.of(objectName(disk));
      }),
    allocation: async () => null,
    async largestEntries(disk, signal) {
      signal.throwIfAborted();
      if (disk.kind === 'snapshot' || (await observe(disk)).kind !== 'present') return null;
      return largestShellEntries(pods.shell(disk), signal);
    },
    destroy: (disk) => changing(() => destroyDisk(context, disk, AbortSignal.timeout(DESTROY_DEADLINE_MS))),
    listOwned: () =>
      withStorageFaults(async () => {
        const disks = [...(await ownClaims()), ...(await ownSnapshots())].map(diskOf).filter((disk) => disk !== null);
        return [...new Map(disks.map((disk) => [diskKey(disk), disk])).values()];
      }),
    listMounted: () => withStorageFaults(() => pods.idle()),
    space: () =>
      withStorageFaults(async () => {
        await facts.read();
        const bytes = poolGB * BYTES_PER_GB;
        return { totalBytes: bytes, freeBytes: bytes };
      }),
  };
}

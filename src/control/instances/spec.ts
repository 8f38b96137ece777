/** From the intent to what the engine is asked: disks first, then the container that mounts them. */
import type { HostMount, EngineSpec } from '../../engines/contract.ts';
import { capacityOf } from '../../domain/catalog.ts';
import { diskKey, type DiskId, type DiskKind } from '../../domain/disk.ts';
import { ownDisks, ownMountPaths } from '../../domain/instance-disks.ts';
import { notebookPath } from '../../domain/public-instance.ts';
import { authorizedKeysOf } from '../../store/tables/keys.ts';
import { volumeStatusesOf } from '../../store/tables/volumes.ts';
import { requireLocatedDisks, type LocatedDisk } from '../volumes/disks.ts';
import { imageRefOf } from '../images/instance-image.ts';
import { withDiskMutex } from '../volumes/disk-mutex.ts';
import type { ReconcileContext } from './reconcile-context.ts';

/** A mounted volume is not Bound: yet, or (lost) never again. */
export class VolumeNotReady extends Error {
  readonly lost: boolean;
  constructor(message: string, lost: boolean) {
    super(message);
    this.lost = lost;
  }
}

/** The storage did not do what was asked. Its own words may tell of the host: they are for the log alone. */
export class DisksFailed extends Error {}

/** What was there is there no more, and only people can bring it back. */
export class DisksLost extends Error {
  /** As the operator names it. */
  readonly disk: string;
  constructor(message: string, disk: string) {
    super(message);
    this.disk = disk;
  }
}

export const KEYS_FILE = 'authorized_keys';

const COMMON_DATA = '/root/commonData';

export async function prepareDisks(work: ReconcileContext): Promise<void> {
  const { deps, instance } = work;
  const { spec } = instance;
  const statuses = await volumeStatusesOf(
    deps.store.read,
    spec.mounts.map(({ volumeId }) => volumeId),
  );
  for (const { volumeId, volumeName } of spec.mounts) {
    const status = statuses.get(volumeId);
    if (status === 'Bound') continue;
    const lost = status !== 'Pending';
    throw new VolumeNotReady(`volume ${volumeName} (${volumeId}) is ${status ?? 'gone'}`, lost);
  }
  await makeOwnDisks(work);
}

/**
 * Those that are there stay as they are, or are made as large as they are promised to be; an adopted instance may have none. One that was
 * there and is gone is not replaced by an empty one: what it held may be brought back.
 */
export async function makeOwnDisks(work: ReconcileContext): Promise<void> {
  const makeOne = (disk: LocatedDisk): Promise<void> =>
    onDisk(work, disk, async (signal) => {
      if (disk.provisioned) await expectThere(disk);
      else await disk.storage.create(disk, disk.sizeGB, signal);
      await disk.storage.grow(disk, disk.sizeGB);
    });
  await Promise.all((await ownDisksOf(work)).map(makeOne));
}

async function expectThere(disk: LocatedDisk): Promise<void> {
  const seen = await disk.storage.observe(disk);
  if (seen.kind === 'unknown') throw new Error(seen.reason);
  if (seen.kind === 'absent') throw new DisksLost(`the ${disk.kind} disk of the instance is gone`, diskKey(disk));
}

const ownDisksOf = ({ deps, drivers, instance }: ReconcileContext): Promise<LocatedDisk[]> =>
  requireLocatedDisks(deps.store.read, drivers, ownDisks(instance, drivers.sharedDiskGB));

/** A storage that never answers (a network's that is gone) must not hold the pass, nor the wish that overtakes it. */
async function onDisk<T>(
  work: ReconcileContext,
  disk: LocatedDisk,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    const { held, deps } = work;
    const signal = AbortSignal.any([held.signal, deps.time.deadline(deps.limits.storageDeadlineMs)]);
    return await withDiskMutex(disk.storage, disk, () => fn(signal), signal);
  } catch (cause) {
    work.held.signal.throwIfAborted();
    if (cause instanceof DisksLost) throw cause;
    throw new DisksFailed(`the ${disk.kind} disk could not be had from the storage of the region`, { cause });
  }
}

/** A Docker inside has its own. */
const OWN_TARGETS: Partial<Record<DiskKind, string>> = { data: ownMountPaths.data, shared: ownMountPaths.shared };

interface Mounted {
  mounts: HostMount[];
  /** Where a Docker inside keeps what it has; absent without one. */
  docker?: { storage: string };
}

async function mountDisks(work: ReconcileContext): Promise<Mounted> {
  const { deps, drivers, instance } = work;
  const { mounts } = instance.spec;
  const volumes = mounts.map(({ volumeId }): DiskId => ({ kind: 'volume', id: volumeId }));
  const own = await ownDisksOf(work);
  const disks = [...own, ...(await requireLocatedDisks(deps.store.read, drivers, volumes))];
  const sources = await Promise.all(disks.map((disk) => onDisk(work, disk, () => disk.storage.mount(disk))));
  const mounted: Mounted = { mounts: [] };
  for (const [index, { kind }] of disks.entries()) {
    const source = sources[index] ?? '';
    // Not by the volume: it may be mounted at several places.
    const target = kind === 'volume' ? mounts[index - own.length]?.mountPath : OWN_TARGETS[kind];
    if (target !== undefined) mounted.mounts.push({ source, target, readOnly: false });
    else mounted.docker = { storage: source };
  }
  return mounted;
}

export async function engineSpec(work: ReconcileContext): Promise<EngineSpec> {
  const { deps, drivers, instance, notebookToken } = work;
  const { spec } = instance;
  const { mounts, ...docker } = await mountDisks(work);
  if (spec.enableCommonData) {
    mounts.push({ source: drivers.commonDataFolder, target: COMMON_DATA, readOnly: true });
  }
  const { cpuMilli, memoryMiB, gpus } = capacityOf(spec.type);
  return {
    id: instance.id,
    ownerId: instance.ownerId,
    generation: instance.generation,
    hostname: `${instance.id}-0`,
    imageRef: imageRefOf(instance),
    cpuMilli,
    memoryMiB,
    gpus,
    rootDiskGB: spec.type.rootDiskGB,
    pidsLimit: deps.pidsLimit,
    mounts,
    ...docker,
    nodePorts: instance.nodePorts,
    nodePortAddress: drivers.nodePortAddress,
    files: [
      { name: 'start', content: drivers.startScript, mode: 0o555 },
      { name: 'init-script', content: spec.initScript, mode: 0o555 },
      { name: KEYS_FILE, content: await authorizedKeysOf(deps.store.read, instance.ownerId), mode: 0o644 },
      { name: 'ssh-host-key', content: deps.sshHostKey(instance.id), mode: 0o600 },
      { name: 'notebook-token', content: `${notebookToken}\n`, mode: 0o600 },
      {
        name: 'env',
        content: `BERTH_INSTANCE_ID=${instance.id}\nBERTH_BASE_URL=${notebookPath(instance.id)}\n`,
        mode: 0o644,
      },
    ],
  };
}

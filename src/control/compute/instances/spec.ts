/** Translates an instance into the engine's spec, with disks prepared and mounted. */
import type { ControlFile, HostMount, EngineSpec } from '../../../engines/contract.ts';
import { imageRefOf, type Instance } from '../../../domain/compute/instance.ts';
import { capacityOfSpec, gpuCountOf } from '../../../domain/regions/catalog.ts';
import { promptName } from '../../../domain/compute/prompt-name.ts';
import { processLimitOf } from '../../../domain/compute/instance-limits.ts';
import { diskKey, type DiskId, type DiskKind } from '../../../domain/storage/disk.ts';
import { proxyVariables } from '../../../domain/compute/own-variables.ts';
import { noticeFile } from '../../../domain/compute/notice.ts';
import { ownDisks, ownMountPaths } from '../../../domain/compute/instance-disks.ts';
import { shellExports } from '../../../domain/compute/environment.ts';
import type { Db } from '../../../store/store.ts';
import { authorizedKeysOf } from '../../../store/tables/keys.ts';
import { quarantinedCards } from '../../../store/tables/quarantine.ts';
import { volumeStatusesOf } from '../../../store/tables/volumes.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import type { ReconcileContext } from './reconcile-context.ts';
import { isStorageAway, requireLocatedDisks, withDiskMutex, type LocatedDisk } from '../../storage/ports.ts';

/** A mounted volume is not Bound yet, or (`lost`) never will be. */
export class VolumeNotReady extends Error {
  readonly lost: boolean;
  constructor(message: string, lost: boolean) {
    super(message);
    this.lost = lost;
  }
}

/** A storage call failed. The cause may name paths of the host: log it, don't show it. */
export class DisksFailed extends Error {}

/** A disk is there, but could not grow. */
export class GrowthFailed extends DisksFailed {}

/** A provisioned disk is gone: only an operator can restore it. */
export class DisksLost extends Error {
  readonly disk: string;
  constructor(message: string, disk: string) {
    super(message);
    this.disk = disk;
  }
}

const KEYS_FILE = 'authorized_keys';
const ENVIRONMENT_FILE = 'env';

const COMMON_DATA = '/root/commonData';

export async function prepareDisks(context: ReconcileContext, instance: Instance): Promise<void> {
  const { spec } = instance;
  const statuses = await volumeStatusesOf(
    context.deps.store.read,
    spec.mounts.map(({ volumeId }) => volumeId),
  );
  for (const { volumeId, volumeName } of spec.mounts) {
    const status = statuses.get(volumeId);
    if (status === 'Bound') continue;
    const lost = status !== 'Pending';
    throw new VolumeNotReady(`volume ${volumeName} (${volumeId}) is ${status ?? 'gone'}`, lost);
  }
  await makeOwnDisks(context, instance);
}

/**
 * Creates the instance's own disks or grows them to their size. Throws `DisksLost` instead of
 * replacing a lost disk by an empty one: its content may be restorable.
 */
export async function makeOwnDisks(context: ReconcileContext, instance: Instance): Promise<void> {
  const makeOne = (disk: LocatedDisk): Promise<void> =>
    withDisk(context, disk, async (signal) => {
      if (disk.provisioned) await expectPresent(disk);
      else await disk.storage.create(disk, disk.sizeGB, signal);
      await disk.storage.grow(disk, disk.sizeGB).catch((cause: unknown) => {
        throw new GrowthFailed(`the storage of the region could not enlarge the ${disk.kind} disk`, { cause });
      });
    });
  await Promise.all((await ownDisksOf(context, instance)).map(makeOne));
}

async function expectPresent(disk: LocatedDisk): Promise<void> {
  const observation = await disk.storage.observe(disk);
  if (observation.kind === 'unknown') throw observation.fault ?? new Error(observation.reason);
  if (observation.kind === 'absent')
    throw new DisksLost(`the ${disk.kind} disk of the instance is gone`, diskKey(disk));
}

const ownDisksOf = ({ deps, drivers }: ReconcileContext, instance: Instance): Promise<LocatedDisk[]> =>
  requireLocatedDisks(deps.store.read, drivers, ownDisks(instance, drivers.sharedDiskGB));

/** Bounds a storage call: a hanging network storage must not block this reconcile or the next. */
async function withDisk<T>(
  { deps, signal: superseded }: ReconcileContext,
  disk: LocatedDisk,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    const signal = AbortSignal.any([superseded, deps.time.deadline(deps.limits.storageDeadlineMs)]);
    return await withDiskMutex(disk, () => fn(signal), signal);
  } catch (cause) {
    superseded.throwIfAborted();
    if (cause instanceof DisksLost || cause instanceof GrowthFailed) throw cause;
    const why = isStorageAway(cause) ? `: ${errorText(cause)}` : '';
    throw new DisksFailed(`the storage of the region could not provide the ${disk.kind} disk${why}`, { cause });
  }
}

/** The Docker sidecar mounts its own disk. */
const OWN_TARGETS: Partial<Record<DiskKind, string>> = { data: ownMountPaths.data, shared: ownMountPaths.shared };

interface Mounted {
  mounts: HostMount[];
  docker?: { storage: string };
}

async function mountDisks(context: ReconcileContext, instance: Instance): Promise<Mounted> {
  const { deps, drivers } = context;
  const { mounts } = instance.spec;
  const volumes = mounts.map(({ volumeId }): DiskId => ({ kind: 'volume', id: volumeId }));
  const own = await ownDisksOf(context, instance);
  const disks = [...own, ...(await requireLocatedDisks(deps.store.read, drivers, volumes))];
  const sources = await Promise.all(disks.map((disk) => withDisk(context, disk, () => disk.storage.mount(disk))));
  const mounted: Mounted = { mounts: [] };
  for (const [index, { kind, storage }] of disks.entries()) {
    const source = sources[index] ?? '';
    const isShared = kind === 'shared' || kind === 'volume';
    const oneNode = isShared && storage.capabilities().oneNode === true ? ({ oneNode: true } as const) : {};
    // A volume may have several mount paths: match by index.
    const target = kind === 'volume' ? mounts[index - own.length]?.mountPath : OWN_TARGETS[kind];
    if (target !== undefined) mounted.mounts.push({ source, target, readOnly: false, ...oneNode });
    else mounted.docker = { storage: source };
  }
  return mounted;
}

export async function engineSpec(context: ReconcileContext, instance: Instance): Promise<EngineSpec> {
  const { deps, drivers } = context;
  const notebookToken = context.notebookToken();
  // Older notebooks take an empty token for no protection.
  if (notebookToken === '') throw new Error(`the notebook token of ${instance.id} was not sealed by this server`);
  const { spec } = instance;
  const { mounts, docker } = await mountDisks(context, instance);
  if (spec.enableCommonData && drivers.commonDataFolder !== null)
    mounts.push({ source: drivers.commonDataFolder, target: COMMON_DATA, readOnly: true });
  const { cpuMilli, memoryMiB } = capacityOfSpec(spec);
  const gpus = gpuCountOf(spec);
  const network = drivers.instanceNetwork ?? {};
  return {
    id: instance.id,
    ownerId: instance.ownerId,
    generation: instance.generation,
    hostname: `${instance.id}-0`,
    imageRef: imageRefOf(instance),
    mustExist: instance.rootDisk === 'kept',
    cpuMilli,
    memoryMiB,
    gpus,
    gpuName: spec.type.gpuName,
    withoutGpus: gpus === 0 ? undefined : await quarantinedCards(deps.store.read, spec.regionId),
    spot: spec.isSpot,
    runtime: spec.type.runtime,
    placement: spec.type.placement,
    rootDiskGB: spec.type.rootDiskGB,
    pidsLimit: processLimitOf({ memoryMiB, cpuMilli }),
    mounts,
    ...(docker && {
      docker: {
        storage: docker.storage,
        caFolder: network.caFolder,
        environment: Object.fromEntries(proxyVariables(network)),
      },
    }),
    dns: network.dns,
    nodePorts: instance.nodePorts,
    nodePortAddress: drivers.nodePortAddress,
    files: [
      ...(spec.runImageCommand ? [] : await startFiles(context, instance, notebookToken)),
      { name: 'name', content: `${promptName(spec.name)}\n`, mode: 0o644 },
      {
        name: ENVIRONMENT_FILE,
        content: await environmentFile(deps.store.read, context, instance),
        mode: spec.runImageCommand ? 0o644 : 0o600,
      },
      { name: 'notice.json', content: noticeFile(instance), mode: 0o644 },
      ...optionalFile('networks', network.script),
      ...optionalFile('ca.pem', network.ca),
      ...optionalFile('apt-mirror', network.aptMirror),
    ],
  };
}

const startFiles = async (
  { deps, drivers }: ReconcileContext,
  { id, ownerId, spec }: Instance,
  notebookToken: string,
): Promise<ControlFile[]> => [
  { name: 'start', content: drivers.startScript, mode: 0o555 },
  { name: 'init-script', content: spec.initScript, mode: 0o555 },
  { name: 'start-command', content: spec.startCommand, mode: 0o555 },
  { name: KEYS_FILE, content: await authorizedKeysOf(deps.store.read, ownerId), mode: 0o644 },
  { name: 'ssh-host-key', content: deps.sshHostKey(id), mode: 0o600 },
  { name: 'jupyter-config', content: drivers.jupyterConfig, mode: 0o644 },
  { name: 'notebook-token', content: `${notebookToken}\n`, mode: 0o600 },
];

const optionalFile = (name: string, content: string | undefined): ControlFile[] =>
  content === undefined ? [] : [{ name, content, mode: 0o644 }];

const environmentFile = async (
  db: Db,
  { deps }: Pick<ReconcileContext, 'deps'>,
  instance: Pick<Instance, 'id' | 'ownerId' | 'spec'>,
): Promise<string> => shellExports(await deps.variables.environmentOf(db, instance));

/** Whether keys or variables have changed since the spec was made. */
export async function areFilesStale(
  db: Db,
  context: Pick<ReconcileContext, 'deps'>,
  instance: Pick<Instance, 'id' | 'ownerId' | 'spec'>,
  { files }: EngineSpec,
): Promise<boolean> {
  const given = (name: string): string | undefined => files.find((file) => file.name === name)?.content;
  const keys = given(KEYS_FILE);
  return (
    (keys !== undefined && keys !== (await authorizedKeysOf(db, instance.ownerId))) ||
    given(ENVIRONMENT_FILE) !== (await environmentFile(db, context, instance))
  );
}

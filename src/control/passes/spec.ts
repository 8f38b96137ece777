/** From the intent to what the engine is asked: disks first, then the container that mounts them. */
import type { HostMount, EngineSpec } from '../../engines/contract.ts';
import { capacityOf } from '../../domain/catalog.ts';
import { notebookPath } from '../../domain/public-instance.ts';
import { authorizedKeysOf } from '../../store/keys.ts';
import { volumeStatusesOf } from '../../store/volumes.ts';
import type { DiskId } from '../../storage/contract.ts';
import { dataDisk, sharedDisk } from '../disks.ts';
import { imageRefOf } from './image-of.ts';
import { inTurn } from '../disk-turns.ts';
import type { Work } from './work.ts';

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

export const KEYS_FILE = 'authorized_keys';

const DATA_DISK = '/root/dataDisk';
const SHARED_DISK = '/root/sharedDisk';
const COMMON_DATA = '/root/commonData';

export async function prepareDisks(work: Work): Promise<void> {
  const { needs, instance } = work;
  const { spec } = instance;
  const statuses = await volumeStatusesOf(
    needs.store.read,
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

/** Those that are there stay as they are; an adopted instance may have none. */
export async function makeOwnDisks(work: Work): Promise<void> {
  const { instance, hands } = work;
  const { spec } = instance;
  const { storage } = hands;
  const data = dataDisk(instance.id);
  const shared = sharedDisk(instance);
  const dataGB = spec.type.dataDiskGB + spec.extraDataDiskGB;
  await ofStorage(work, 'data disk', data, () => storage.create(data, dataGB));
  await ofStorage(work, 'shared disk', shared, () => storage.create(shared, spec.type.dataDiskGB));
}

/** A storage that never answers (a network's that is gone) must not hold the pass, nor the wish that overtakes it. */
async function ofStorage<T>(work: Work, what: string, disk: DiskId, deed: () => Promise<T>): Promise<T> {
  try {
    const { held, hands, needs } = work;
    const signal = AbortSignal.any([held.signal, needs.time.deadline(needs.limits.storageDeadlineMs)]);
    return await inTurn(hands.storage, disk, deed, signal);
  } catch (cause) {
    work.held.signal.throwIfAborted();
    throw new DisksFailed(`the ${what} could not be had from the storage of the region`, { cause });
  }
}

export async function engineSpec(work: Work): Promise<EngineSpec> {
  const { needs, hands, instance, notebookToken } = work;
  const { spec } = instance;
  const folder = async (disk: DiskId, target: string): Promise<HostMount> => ({
    source: await ofStorage(work, `disk of ${target}`, disk, () => hands.storage.mount(disk)),
    target,
    readOnly: false,
  });
  const mounts = [
    await folder(dataDisk(instance.id), DATA_DISK),
    await folder(sharedDisk(instance), SHARED_DISK),
    ...(await Promise.all(
      spec.mounts.map(({ volumeId, mountPath }) => folder({ kind: 'volume', id: volumeId }, mountPath)),
    )),
  ];
  if (spec.enableCommonData) {
    mounts.push({ source: hands.commonDataFolder, target: COMMON_DATA, readOnly: true });
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
    pidsLimit: needs.pidsLimit,
    mounts,
    nodePorts: instance.nodePorts,
    nodePortAddress: hands.nodePortAddress,
    files: [
      { name: 'start', content: hands.startScript, mode: 0o555 },
      { name: 'init-script', content: spec.initScript, mode: 0o555 },
      { name: KEYS_FILE, content: await authorizedKeysOf(needs.store.read, instance.ownerId), mode: 0o644 },
      { name: 'notebook-token', content: `${notebookToken}\n`, mode: 0o600 },
      {
        name: 'env',
        content: `BERTH_INSTANCE_ID=${instance.id}\nBERTH_BASE_URL=${notebookPath(instance.id)}\n`,
        mode: 0o644,
      },
    ],
  };
}

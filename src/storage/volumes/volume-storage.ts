/**
 * # Disks as named volumes of a Docker engine
 *
 * For an engine on another host, whose folders Berth does not see: its API makes, lists and removes
 * volumes, and reports their sizes. `mount` returns the volume's name, which the engine mounts into
 * the instance. Files are reached by commands in a container that mounts the volume.
 *
 * The engine's own driver has neither limits nor copies: sizes are measured and not enforced, and
 * there are no snapshots. A label cannot be changed, so a volume has no state: it is complete once
 * it is there.
 */
import { text } from 'node:stream/consumers';
import type { VolumeInspectInfo } from 'dockerode';
import { raceAbort } from '../../async/abort.ts';
import { BYTES_PER_GB, diskKey, type DiskId } from '../../domain/storage/disk.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import { statusOf } from '../../docker/faults.ts';
import { diskNotFound, StorageFault, type Storage } from '../contract.ts';
import { DISK_KEY, diskLabels, diskOfKey, objectName } from '../disk-names.ts';
import { largestShellEntries, shellFiles, type OpenShell } from '../files.ts';
import { requireDiskId } from '../layout.ts';
import { makeFilesContainers } from './files-containers.ts';
import { withEngineFaults } from './volume-faults.ts';
import type { VolumeOptions } from './volume-options.ts';
import { makeVolumeSizes } from './volume-sizes.ts';

const DEADLINE_MS = 20_000;
const FILES_IDLE_MS = 30_000;
const USAGE_AGE_MS = 60_000;
const BYTES_PER_KIB = 1024;
const USAGE_SCRIPT = 'cd "$1" && exec du -xsk .';

const NO_COPIES =
  'its disks are volumes of an engine on another machine, and the engine cannot copy a volume; copy files through an instance that mounts both';

const soon = (): AbortSignal => AbortSignal.timeout(DEADLINE_MS);

export function makeVolumeStorage(options: VolumeOptions): Storage {
  const { client, installation, pool, sizeGB: poolGB, elapsed = () => performance.now() } = options;
  const { filesIdleMs = FILES_IDLE_MS, usageAgeMs = USAGE_AGE_MS } = options;
  const { docker, call } = client;
  const containers = makeFilesContainers({ ...options, idleMs: filesIdleMs, elapsed });
  const sizes = makeVolumeSizes(client, { ageMs: usageAgeMs, elapsed });

  const isOwned = ({ Labels }: Pick<VolumeInspectInfo, 'Labels'>): boolean =>
    Labels?.[diskLabels.installation] === installation && Labels[diskLabels.pool] === pool;

  async function find(disk: DiskId, signal: AbortSignal): Promise<VolumeInspectInfo | null> {
    requireDiskId(disk);
    const name = objectName(disk);
    try {
      const found = await call(signal, (abortSignal) => docker.getVolume(name).inspect({ abortSignal }));
      if (!isOwned(found)) throw new Error(`the volume ${name} is not of this installation and pool`);
      return found;
    } catch (error) {
      if (statusOf(error) === 404) return null;
      throw error;
    }
  }

  async function requireVolume(disk: DiskId): Promise<string> {
    if ((await find(disk, soon())) === null) throw diskNotFound(disk);
    return objectName(disk);
  }

  async function remove(disk: DiskId, signal: AbortSignal): Promise<void> {
    const volume = docker.getVolume(objectName(disk));
    try {
      await call(signal, (abortSignal) => volume.remove({ abortSignal }));
    } catch (error) {
      if (statusOf(error) === 404) return;
      if (statusOf(error) === 409) throw new StorageFault('busy', `the ${disk.kind} disk ${disk.id} is in use`, error);
      throw error;
    }
  }

  return {
    capabilities: () => ({
      sizeLimit: 'soft',
      usage: 'walk',
      copies: 'live',
      whyNoCopies: NO_COPIES,
      dockerInside: false,
    }),
    create: (disk, _sizeGB, signal, from) =>
      withEngineFaults(async () => {
        requireDiskId(disk);
        if (from !== undefined || disk.kind === 'snapshot') throw new StorageFault('unsupported', NO_COPIES);
        if ((await find(disk, signal)) !== null) return;
        const Labels = {
          [diskLabels.installation]: installation,
          [diskLabels.kind]: disk.kind,
          [diskLabels.id]: objectName(disk),
          [diskLabels.pool]: pool,
          [DISK_KEY]: diskKey(disk),
        };
        await call(signal, () => docker.createVolume({ Name: objectName(disk), Labels, abortSignal: signal }));
      }),
    grow: (disk) =>
      withEngineFaults(async () => {
        await requireVolume(disk);
      }),
    mount: (disk) => withEngineFaults(() => requireVolume(disk)),
    files: (disk) =>
      withEngineFaults(async () => {
        await requireVolume(disk);
        return shellFiles(containers.shell(disk));
      }),
    unmount: (disk) =>
      withEngineFaults(async () => {
        requireDiskId(disk);
        await containers.end(disk, soon());
      }),
    async observe(disk) {
      requireDiskId(disk);
      try {
        return (await find(disk, soon())) === null ? { kind: 'absent' } : { kind: 'present', sizeGB: null };
      } catch (error) {
        return { kind: 'unknown', reason: errorText(error) };
      }
    },
    usage: (disk, signal) =>
      withEngineFaults(async () => {
        requireDiskId(disk);
        const size = await sizes.of(objectName(disk), signal);
        return size === 'uncounted' ? shellUsage(containers.shell(disk), signal) : size;
      }),
    allocation: async () => null,
    async largestEntries(disk, signal) {
      signal.throwIfAborted();
      if ((await withEngineFaults(() => find(disk, soon()))) === null) return null;
      return largestShellEntries(containers.shell(disk), signal);
    },
    destroy: (disk) =>
      withEngineFaults(async () => {
        if ((await find(disk, soon())) === null) return;
        await containers.end(disk, soon());
        await remove(disk, soon());
      }),
    listOwned: () =>
      withEngineFaults(async () => {
        const label = [`${diskLabels.installation}=${installation}`, `${diskLabels.pool}=${pool}`];
        const { Volumes } = await call(soon(), (abortSignal) =>
          docker.listVolumes({ filters: { label }, abortSignal }),
        );
        return (Volumes ?? []).flatMap(({ Labels }) => diskOfKey(Labels?.[DISK_KEY]) ?? []);
      }),
    listMounted: () => withEngineFaults(() => containers.idle(soon())),
    space: () =>
      withEngineFaults(async () => {
        await client.get('/_ping', soon());
        const bytes = poolGB * BYTES_PER_GB;
        return { totalBytes: bytes, freeBytes: bytes };
      }),
  };
}

/**
 * Returns the bytes of a disk where the command runs, or null when unreadable. Files with a path of
 * more than 4,096 bytes, which `du` of BusyBox reports as errors, are not counted.
 */
async function shellUsage(open: OpenShell, signal: AbortSignal): Promise<number | null> {
  const command = await open(USAGE_SCRIPT, [], signal);
  try {
    command.stdin.end();
    command.stderr.resume();
    const [output] = await raceAbort(Promise.all([text(command.stdout), command.exited]), signal);
    const total = /^(\d+)\t\.\n$/.exec(output);
    return total === null ? null : Number(total[1]) * BYTES_PER_KIB;
  } finally {
    command.close();
  }
}

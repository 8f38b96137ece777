/**
 * Containers that serve the files of volumes, at most one for each. A container starts with the
 * first command, and ends when `unmount` finds it idle, or by itself some time after its last
 * command: also after a crash of Berth.
 */
import { makeKeyedMutex } from '../../async/mutex.ts';
import type { DiskId } from '../../domain/storage/disk.ts';
import { diskKey } from '../../domain/storage/disk.ts';
import { statusOf } from '../../docker/faults.ts';
import { ensureHelper, removeHelper, runInHelper, type HelperContainer } from '../../docker/helper-container.ts';
import { openHelperCommand } from '../../docker/helper-command.ts';
import { DISK_KEY, diskLabels, diskOfKey, objectName } from '../disk-names.ts';
import { discardUploads, type OpenShell } from '../files.ts';
import { makeHelperUses } from '../helper-uses.ts';
import { withEngineFaults } from './volume-faults.ts';
import type { VolumeOptions } from './volume-options.ts';

export interface FilesContainers {
  /** Each command starts the container if none runs. */
  shell(disk: DiskId): OpenShell;
  /** Absent is success. */
  end(disk: DiskId, signal: AbortSignal): Promise<void>;
  /** Disks with a container that no command has used for a while. */
  idle(signal: AbortSignal): Promise<DiskId[]>;
}

const DISK_FOLDER = '/disk';
const KIND = 'files';
/** The container's own limit is longer than Berth's. */
const OWN_IDLE_FACTOR = 2;

const nameOf = (disk: DiskId): string => `${objectName(disk)}-files`;

type Options = Pick<VolumeOptions, 'client' | 'installation' | 'pool' | 'helperImage' | 'ensureImage'> & {
  idleMs: number;
  elapsed: () => number;
};

export function makeFilesContainers({ client, installation, pool, ...options }: Options): FilesContainers {
  const { helperImage, ensureImage, idleMs, elapsed } = options;
  const uses = makeHelperUses({ idleMs, elapsed });
  const mutex = makeKeyedMutex<string>();
  /** Ids of containers without uploads that a crash has left, by name. */
  const cleaned = new Map<string, string>();

  const helperOf = (disk: DiskId): HelperContainer => ({
    name: nameOf(disk),
    image: helperImage,
    labels: {
      [diskLabels.installation]: installation,
      [diskLabels.kind]: KIND,
      [diskLabels.pool]: pool,
      [DISK_KEY]: diskKey(disk),
    },
    idleS: Math.ceil((OWN_IDLE_FACTOR * idleMs) / 1000),
    user: '0:0',
    // Root of instances owns the files, with any modes.
    capabilities: ['DAC_OVERRIDE', 'FOWNER'],
    network: 'none',
    volumes: { [DISK_FOLDER]: objectName(disk) },
  });

  const commandOf = (script: string, args: readonly string[]): string[] => [
    'sh',
    '-c',
    script,
    'sh',
    DISK_FOLDER,
    ...args,
  ];

  /** A new one first removes what an interrupted upload has left. */
  const start = (disk: DiskId, signal: AbortSignal): Promise<void> =>
    mutex.run(
      nameOf(disk),
      async () => {
        const id = await ensureHelper(client, helperOf(disk), ensureImage, signal);
        if (cleaned.get(nameOf(disk)) === id) return;
        await discardUploads(
          (script, args, until) => openHelperCommand(client, id, commandOf(script, args), until),
          signal,
        );
        cleaned.set(nameOf(disk), id);
      },
      signal,
    );

  return {
    shell: (disk) => (script, args, signal) =>
      withEngineFaults(() =>
        uses.during(nameOf(disk), async () => {
          await start(disk, signal);
          return runInHelper(client, helperOf(disk), { command: commandOf(script, args), ensureImage, signal });
        }),
      ),
    async end(disk, signal) {
      const { docker, call } = client;
      uses.forget(nameOf(disk));
      cleaned.delete(nameOf(disk));
      const container = docker.getContainer(nameOf(disk));
      const info = await call(signal, (abortSignal) => container.inspect({ abortSignal })).catch((error: unknown) => {
        if (statusOf(error) === 404) return null;
        throw error;
      });
      if (info?.Config.Labels[diskLabels.installation] !== installation) return;
      await removeHelper(client, info.Id, signal);
    },
    async idle(signal) {
      const { docker, call } = client;
      const label = [
        `${diskLabels.installation}=${installation}`,
        `${diskLabels.kind}=${KIND}`,
        `${diskLabels.pool}=${pool}`,
      ];
      const found = await call(signal, (abortSignal) =>
        docker.listContainers({ all: true, filters: { label }, abortSignal }),
      );
      return found.flatMap(({ Names, Labels }) => {
        const disk = diskOfKey(Labels[DISK_KEY]);
        return disk !== null && Names.every((name) => uses.isIdle(name.replace(/^\//, ''))) ? [disk] : [];
      });
    },
  };
}

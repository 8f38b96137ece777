/**
 * # Control files on an engine on another host
 *
 * A named volume takes the place of the folder: read-only in the instance, outside of its root
 * disk, and so not in saved images. A container that only mounts the volume writes the files. An
 * empty volume is filled without a start of that container; in a used one, a command moves the new
 * files over the old ones, since an instance may be reading them.
 */
import { createHash } from 'node:crypto';
import { pack } from 'tar-stream';
import { buffer } from 'node:stream/consumers';
import { makeBoundedMap } from '../../../async/bounded-map.ts';
import { withDeadline } from '../../../async/abort.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { isImageGone, isNameTaken, statusOf } from '../../../docker/faults.ts';
import { helperLimits, removeHelper, volumeMount, type EnsureImage } from '../../../docker/helper-container.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { ControlFile } from '../../contract.ts';
import { containerName, labels, labelsOf } from '../../labels.ts';
import { folderModeOf, requireFileNames, type ControlFiles } from './control-files.ts';

const FOLDER = '/control';
const FRESH = '.new';
const DEADLINE_MS = 60_000;
const MAX_INSTANCES = 100_000;

/** Moves files that differ in place, each at once, and removes all that are not among the new. */
const REPLACE = `
cd ${FOLDER}/${FRESH} || exit
for name in * .[!.]*; do
  [ -e "$name" ] || continue
  if cmp -s "$name" "../$name" && [ "$(stat -c %a "$name")" = "$(stat -c %a "../$name")" ]; then
    rm "$name" || exit
  else
    mv -f "$name" .. || exit
  fi
  kept="$kept/$name/"
done
cd .. && rmdir ${FRESH} || exit
for name in * .[!.]*; do
  case $kept in */"$name"/*) continue ;; esac
  rm -rf "./$name" || exit
done
`;

export const controlVolume = (id: InstanceId): string => `${containerName(id)}-control`;
const writerName = (id: InstanceId): string => `${controlVolume(id)}-writer`;

interface ControlVolumesDeps {
  client: DockerClient;
  installation: string;
  helperImage: string;
  ensureImage: EnsureImage;
}

export function makeControlVolumes({ client, installation, ...helper }: ControlVolumesDeps): ControlFiles {
  const { docker, call } = client;
  /** Digests of the files that this process wrote last. */
  const written = makeBoundedMap<string>({ maxEntries: MAX_INSTANCES });
  const labelsFor = (id: InstanceId): Record<string, string> =>
    labelsOf(installation, { kind: 'control', id, ownerId: '', generation: 0 });

  /** Returns whether the volume is new. */
  async function ensureVolume(id: InstanceId, signal: AbortSignal): Promise<boolean> {
    const found = await findVolume(id, signal);
    if (found === null) {
      const request = { Name: controlVolume(id), Labels: labelsFor(id), abortSignal: signal };
      await call(signal, () => docker.createVolume(request));
      return true;
    }
    if (found[labels.installation] !== installation) {
      const text = `a volume named ${controlVolume(id)} is on the host and does not belong to this installation; ask the operator to remove it`;
      throw new EngineFault('rejected', text, { retry: false, reason: 'nameTaken' });
    }
    return false;
  }

  async function findVolume(id: InstanceId, signal: AbortSignal): Promise<Record<string, string> | null> {
    try {
      const { Labels } = await call(signal, (abortSignal) =>
        docker.getVolume(controlVolume(id)).inspect({ abortSignal }),
      );
      return Labels ?? {};
    } catch (error) {
      if (statusOf(error) === 404) return null;
      throw error;
    }
  }

  async function createWriter(id: InstanceId, signal: AbortSignal): Promise<string> {
    const request = {
      name: writerName(id),
      Image: helper.helperImage,
      Entrypoint: ['sh', '-c', REPLACE],
      Cmd: [],
      User: '0',
      WorkingDir: '/',
      Labels: labelsOf(installation, { kind: 'helper', id: '', ownerId: '', generation: 0 }),
      Healthcheck: { Test: ['NONE'] },
      HostConfig: {
        ...helperLimits,
        // Sets the mode of the volume's folder, which the engine allows from the root only.
        ReadonlyRootfs: false,
        // Root of instances owns the files, with any modes.
        CapAdd: ['DAC_OVERRIDE', 'FOWNER'],
        NetworkMode: 'none',
        Init: false,
        LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
        Mounts: [volumeMount(controlVolume(id), FOLDER, false)],
      },
      abortSignal: signal,
    };
    for (;;) {
      try {
        return (await call(signal, () => docker.createContainer(request))).id;
      } catch (error) {
        if (isImageGone(error)) await helper.ensureImage(helper.helperImage, signal);
        // A crash left it.
        else if (isNameTaken(error)) await removeHelper(client, writerName(id), signal);
        else throw error;
      }
    }
  }

  async function write(id: InstanceId, files: readonly ControlFile[], isNew: boolean, signal: AbortSignal) {
    const writer = await createWriter(id, signal);
    try {
      const container = docker.getContainer(writer);
      const archive = await tarOf(files, isNew ? '' : `${FRESH}/`);
      await call(signal, (abortSignal) => container.putArchive(archive, { path: '/', abortSignal }));
      if (isNew) return;
      await call(signal, (abortSignal) => container.start({ abortSignal }));
      const { StatusCode } = await call(signal, (abortSignal) => container.wait({ abortSignal }));
      if (StatusCode !== 0) {
        const text = `the control files of the instance could not be replaced: the command in ${helper.helperImage} ended with ${StatusCode}`;
        throw new EngineFault('rejected', text, { retry: true });
      }
    } finally {
      await removeHelper(client, writer, AbortSignal.timeout(DEADLINE_MS));
    }
  }

  return {
    source: controlVolume,
    async write(id, files, signal) {
      requireFileNames(files);
      const digest = digestOf(files);
      if (written.get(id) === digest && (await findVolume(id, signal)) !== null) return;
      written.delete(id);
      const until = withDeadline(signal, DEADLINE_MS);
      await write(id, files, await ensureVolume(id, until), until);
      written.set(id, digest);
    },
    removeSockets: () => Promise.resolve(),
    async remove(id, signal) {
      written.delete(id);
      const found = await findVolume(id, signal);
      if (found?.[labels.installation] !== installation) return;
      await removeHelper(client, writerName(id), signal);
      try {
        await call(signal, () => docker.getVolume(controlVolume(id)).remove({ abortSignal: signal }));
      } catch (error) {
        if (statusOf(error) !== 404) throw error;
      }
    },
  };
}

async function tarOf(files: readonly ControlFile[], folder: string): Promise<Buffer> {
  const tar = pack();
  const whole = buffer(tar);
  const top = `${FOLDER.slice(1)}/`;
  for (const name of folder === '' ? [top] : [top, `${top}${folder}`])
    tar.entry({ name, type: 'directory', mode: folderModeOf(files), mtime: new Date(0) });
  for (const { name, mode, content } of files) tar.entry({ name: `${top}${folder}${name}`, mode }, content);
  tar.finalize();
  return whole;
}

function digestOf(files: readonly ControlFile[]): string {
  const hash = createHash('sha256');
  for (const { name, mode, content } of files.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
    hash.update(JSON.stringify([name, mode, content]));
  return hash.digest('hex');
}

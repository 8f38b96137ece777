/**
 * # The Docker beside an instance
 *
 * A container for its daemon, in the instance's network and, where the host can, under the instance's own limits. It belongs to one run
 * of the instance: the network is another with each start, so it is made anew then, and it is gone when the instance stands still. What
 * it keeps is on a disk. Which rights it has, and where it can be, is `docker-inside-options.ts`.
 */
import { lchown, mkdir, readFile } from 'node:fs/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { InstanceId } from '../../../domain/ids.ts';
import type { EngineSpec } from '../../contract.ts';
import { dockerName } from '../../labels.ts';
import type { Client } from '../client/client.ts';
import { SOCKET_FOLDER } from './create-options.ts';
import {
  daemonOptions,
  dataFolder,
  limitingGroup,
  ownerOf,
  socketFolder,
  type DockerMode,
} from './docker-inside-options.ts';
import { isContainerGone, isImageGone, isNameTaken, statusOf } from '../client/faults.ts';
import type { Host } from '../client/host.ts';
import { isDockerOf, isRunning, startedAtMs } from './observation.ts';

/** As the operator wants it. */
export interface DockerInsideConfig {
  mode: DockerMode;
  imageRef: string;
}

export interface DockerInside {
  /** The folder of the socket, made; undefined for an instance without. `rejected` when it is to have one and can't. */
  prepare(spec: EngineSpec, signal: AbortSignal): Promise<string | undefined>;
  /** Takes away what is left of an earlier run of the instance, before the next begins. */
  clear(spec: EngineSpec, signal: AbortSignal): Promise<void>;
  /** Brings it to run beside this run of the instance. */
  ensure(spec: EngineSpec, instance: ContainerInspectInfo, signal: AbortSignal): Promise<void>;
  /** Undefined for an instance without. */
  stateOf(
    id: InstanceId,
    instance: ContainerInspectInfo,
    signal: AbortSignal,
  ): Promise<'running' | 'stopped' | undefined>;
  /** Its containers have `graceMs` to end. Absent is success. */
  remove(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void>;
  /** The container of that name alone. `rejected` when it is not that of this instance. */
  discard(name: string, id: InstanceId, signal: AbortSignal): Promise<void>;
}

/** Whether that container was made for an instance with a Docker. */
export const hasDocker = (mounts: readonly { Destination: string }[] | undefined): boolean =>
  (mounts ?? []).some(({ Destination }) => Destination === SOCKET_FOLDER);

export function makeDockerInside(options: {
  client: Client;
  installation: string;
  host: Host;
  setting: DockerInsideConfig | null;
  /** Told when the engine says that an image is gone after all. */
  onImageGone: (ref: string) => void;
}): DockerInside {
  const { client, installation, host, setting } = options;
  const { docker, call } = client;

  const inspect = async (name: string, signal: AbortSignal): Promise<ContainerInspectInfo | null> => {
    try {
      return await call(signal, (abortSignal) => docker.getContainer(name).inspect({ abortSignal }));
    } catch (error) {
      if (isContainerGone(error)) return null;
      throw error;
    }
  };

  async function find(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo | null> {
    const info = await inspect(dockerName(id), signal);
    return info !== null && isDockerOf(info.Config.Labels, installation, id) ? info : null;
  }

  async function take(info: ContainerInspectInfo, graceMs: number, signal: AbortSignal): Promise<void> {
    const container = docker.getContainer(info.Id);
    const t = Math.ceil(graceMs / 1000);
    try {
      if (t > 0 && info.State.Running) await call(signal, (abortSignal) => container.stop({ t, abortSignal }));
      await call(signal, () => container.remove({ force: true, v: true, abortSignal: signal }));
    } catch (error) {
      // Somebody else removes it, or it has gone.
      if (!isContainerGone(error) && statusOf(error) !== 409) throw error;
    }
  }

  async function remove(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void> {
    const info = await find(id, signal);
    if (info !== null) await take(info, graceMs, signal);
  }

  async function groupOf({ State }: ContainerInspectInfo, signal: AbortSignal): Promise<string | null> {
    const { sharesLimits } = await host.facts(signal);
    if (!sharesLimits) return null;
    return limitingGroup(await readFile(`/proc/${State.Pid}/cgroup`, 'utf8').catch(() => ''));
  }

  async function check(signal: AbortSignal): Promise<DockerInsideConfig> {
    const why = (await host.facts(signal)).whyNoDocker;
    if (why === null && setting !== null) return setting;
    const text = `it was launched with a Docker inside, which the region does not have now: ${why}. Ask its operator; or save its image and launch that without`;
    throw new EngineFault('rejected', text, { retry: false });
  }

  return {
    async prepare({ id, docker: wanted }, signal) {
      if (wanted === undefined) return undefined;
      const socket = socketFolder(wanted.storage);
      // One that is there keeps its way until its instance stops, whatever the operator says meanwhile.
      if ((await find(id, signal)) !== null) return socket;
      const { mode } = await check(signal);
      for (const folder of [dataFolder(wanted.storage, mode), socket]) {
        await makeFolder(folder, ownerOf(mode)).catch((cause: unknown) => {
          const text = 'the disk of its Docker is not there, or full; the operator has to look at it';
          throw new EngineFault('rejected', text, { retry: true, reason: 'badMount', cause });
        });
      }
      return socket;
    },

    async clear({ id, docker: wanted }, signal) {
      if (wanted === undefined) return;
      // Some runtimes start nothing while another group is below its own.
      await remove(id, 0, signal);
      await check(signal);
    },

    async ensure(spec, instance, signal) {
      if (spec.docker === undefined) return;
      const found = await find(spec.id, signal);
      if (found !== null && isBeside(found, instance)) return;
      const { mode, imageRef } = await check(signal);
      if (found !== null) await take(found, 0, signal);
      const cgroup = await groupOf(instance, signal);
      const about = { installation, mode, imageRef, containerId: instance.Id, cgroup, host: await host.facts(signal) };
      const request = daemonOptions({ ...spec, docker: spec.docker }, about);
      try {
        const container = await call(signal, (abortSignal) => docker.createContainer({ ...request, abortSignal }));
        await call(signal, (abortSignal) => container.start({ abortSignal }));
      } catch (error) {
        if (isImageGone(error)) options.onImageGone(imageRef);
        if (!isNameTaken(error)) throw error;
        const text = `${dockerName(spec.id)}, the place of its Docker, is taken on the host, or being freed; it is tried again`;
        throw new EngineFault('busy', text, { retry: true, reason: 'nameTaken', cause: error });
      }
    },

    async stateOf(id, instance, signal) {
      if (!hasDocker(instance.Mounts)) return undefined;
      const found = await find(id, signal);
      if (found === null) return 'stopped';
      // Of one that stands still it counts whether anything runs; of one that runs, whether it is at its side.
      const runs = isRunning(instance.State) ? isBeside(found, instance) : isHeld(found);
      return runs ? 'running' : 'stopped';
    },

    remove,

    async discard(name, id, signal) {
      const info = await inspect(name, signal);
      if (info === null) return;
      if (!isDockerOf(info.Config.Labels, installation, id)) {
        const text = `the container ${name} is not the Docker of an instance of this installation, so it is not removed`;
        throw new EngineFault('rejected', text, { retry: false });
      }
      await take(info, 0, signal);
    },
  };
}

/** The engine starts again what has ended by itself: so a pause between two tries counts as running. */
const isHeld = ({ State }: ContainerInspectInfo): boolean => State.Running || State.Restarting;

const isBeside = (found: ContainerInspectInfo, instance: ContainerInspectInfo): boolean =>
  isHeld(found) &&
  found.HostConfig.NetworkMode === `container:${instance.Id}` &&
  startedAtMs(found.State) >= startedAtMs(instance.State);

async function makeFolder(folder: string, uid: number): Promise<void> {
  await mkdir(folder, { mode: 0o711 }).catch((error: unknown) => {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  });
  await lchown(folder, uid, uid);
}

/**
 * # Docker daemons of instances
 *
 * One container per daemon, in the instance's network and, where the host allows, under its limits.
 * Each start of the instance has a new network, so the container is recreated, and removed at the
 * stop. Data is on a disk. Rights: `docker-inside-options.ts`; hosts: `client/host-facts.ts`.
 */
import { lchown, mkdir, readFile } from 'node:fs/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { errorCode } from '../../../domain/kernel/unknown-error.ts';
import type { EngineSpec } from '../../contract.ts';
import { dockerName } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { inspectContainer } from './container-calls.ts';
import { SOCKET_FOLDER } from './create-options.ts';
import { daemonOptions, dataFolder, uidOf, socketFolder } from './docker-inside-options.ts';
import { isContainerGone, isImageGone, isNameTaken, statusOf } from '../../../docker/faults.ts';
import type { DockerMode, Host } from '../client/host-facts.ts';
import type { IdMappedMounts } from './id-mapped-mounts.ts';
import { isDockerOf, isRunning, startedAtMs } from './observation.ts';

export interface DockerInsideConfig {
  mode: DockerMode;
  imageRef: string;
}

export interface DockerInside {
  /** Creates and returns the socket's folder; undefined without Docker. `rejected`: impossible. */
  prepare(spec: EngineSpec, signal: AbortSignal): Promise<string | undefined>;
  clear(spec: EngineSpec, signal: AbortSignal): Promise<void>;
  ensure(spec: EngineSpec, instance: ContainerInspectInfo, signal: AbortSignal): Promise<void>;
  stateOf(
    id: InstanceId,
    instance: ContainerInspectInfo,
    signal: AbortSignal,
  ): Promise<'running' | 'stopped' | undefined>;
  /** Gives the daemon's containers `graceMs` to end. Absent is success. */
  remove(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void>;
  discard(name: string, id: InstanceId, signal: AbortSignal): Promise<void>;
}

export const hasDocker = (mounts: readonly { Destination: string }[] | undefined): boolean =>
  (mounts ?? []).some(({ Destination }) => Destination === SOCKET_FOLDER);

export function makeDockerInside(options: {
  client: DockerClient;
  installation: string;
  host: Host;
  idMappedMounts: IdMappedMounts;
  config: DockerInsideConfig | null;
  onImageGone: (ref: string) => void;
}): DockerInside {
  const { client, installation, host, idMappedMounts, config } = options;
  const { docker, call } = client;

  async function find(id: InstanceId, signal: AbortSignal): Promise<ContainerInspectInfo | null> {
    const info = await inspectContainer(client, dockerName(id), signal);
    return info !== null && isDockerOf(info.Config.Labels, installation, id) ? info : null;
  }

  async function removeContainer(info: ContainerInspectInfo, graceMs: number, signal: AbortSignal): Promise<void> {
    const container = docker.getContainer(info.Id);
    const t = Math.ceil(graceMs / 1000);
    try {
      if (t > 0 && info.State.Running) await call(signal, (abortSignal) => container.stop({ t, abortSignal }));
      await call(signal, () => container.remove({ force: true, v: true, abortSignal: signal }));
    } catch (error) {
      if (!isContainerGone(error) && statusOf(error) !== 409) throw error;
    }
  }

  async function remove(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void> {
    const info = await find(id, signal);
    if (info !== null) await removeContainer(info, graceMs, signal);
  }

  async function cgroupOf({ State }: ContainerInspectInfo, signal: AbortSignal): Promise<string | null> {
    const { sharesLimits } = await host.facts(signal);
    if (!sharesLimits) return null;
    return limitingGroup(await readFile(`/proc/${State.Pid}/cgroup`, 'utf8').catch(() => ''));
  }

  async function checkAvailable(signal: AbortSignal): Promise<DockerInsideConfig> {
    const why = (await host.facts(signal)).whyNoDocker;
    if (why === null && config !== null) return config;
    const text = `the instance was launched with Docker inside, which the region cannot provide now: ${why}. Ask the operator, or save the instance as an image and launch the image without Docker`;
    throw new EngineFault('rejected', text, { retry: false });
  }

  return {
    async prepare({ id, docker: daemon }, signal) {
      if (daemon === undefined) return undefined;
      const socket = socketFolder(daemon.storage);
      // A running daemon keeps its mode until the instance stops, whatever the configuration says.
      if ((await find(id, signal)) !== null) return socket;
      const { mode } = await checkAvailable(signal);
      for (const folder of [dataFolder(daemon.storage, mode), socket]) {
        await makeFolder(folder, uidOf(mode)).catch((cause: unknown) => {
          const text = 'the disk of its Docker is missing or full; ask the operator to check the disk';
          throw new EngineFault('rejected', text, { retry: true, reason: 'badMount', cause });
        });
      }
      return socket;
    },

    async clear({ id, docker: daemon }, signal) {
      if (daemon === undefined) return;
      // Some runtimes can't start a container while its cgroup has a child.
      await remove(id, 0, signal);
      await checkAvailable(signal);
    },

    async ensure(spec, instance, signal) {
      if (spec.docker === undefined) return;
      const found = await find(spec.id, signal);
      if (found !== null && isCurrent(found, instance)) return;
      const { mode, imageRef } = await checkAvailable(signal);
      if (found !== null) await removeContainer(found, 0, signal);
      const cgroup = await cgroupOf(instance, signal);
      const facts = await host.facts(signal);
      const processors = instance.HostConfig.CpusetCpus ?? '';
      const context = { installation, mode, imageRef, containerId: instance.Id, cgroup, processors, host: facts };
      const given = daemonOptions({ ...spec, docker: spec.docker }, context);
      const request = await idMappedMounts.open(given, facts.userNamespace);
      try {
        const container = await call(signal, (abortSignal) => docker.createContainer({ ...request, abortSignal }));
        await call(signal, (abortSignal) => container.start({ abortSignal }));
      } catch (error) {
        if (isImageGone(error)) options.onImageGone(imageRef);
        if (!isNameTaken(error)) throw error;
        const text = `${dockerName(spec.id)}, the name of its Docker, is taken on the host, or is being freed; Berth retries`;
        throw new EngineFault('busy', text, { retry: true, reason: 'nameTaken', cause: error });
      }
    },

    async stateOf(id, instance, signal) {
      if (!hasDocker(instance.Mounts)) return undefined;
      const found = await find(id, signal);
      if (found === null) return 'stopped';
      // A stopped instance must have no daemon at all; a running one needs the current daemon.
      const runs = isRunning(instance.State) ? isCurrent(found, instance) : isHeldRunning(found);
      return runs ? 'running' : 'stopped';
    },

    remove,

    async discard(name, id, signal) {
      const info = await inspectContainer(client, name, signal);
      if (info === null) return;
      if (!isDockerOf(info.Config.Labels, installation, id)) {
        const text = `the container ${name} is not the Docker of an instance of this installation, so Berth does not remove it`;
        throw new EngineFault('rejected', text, { retry: false });
      }
      await removeContainer(info, 0, signal);
    },
  };
}

/** Includes the pause before a restart by the engine. */
const isHeldRunning = ({ State }: ContainerInspectInfo): boolean => State.Running || State.Restarting;

const isCurrent = (found: ContainerInspectInfo, instance: ContainerInspectInfo): boolean =>
  isHeldRunning(found) &&
  found.HostConfig.NetworkMode === `container:${instance.Id}` &&
  startedAtMs(found.State) >= startedAtMs(instance.State);

async function makeFolder(folder: string, uid: number): Promise<void> {
  await mkdir(folder, { mode: 0o711 }).catch((error: unknown) => {
    if (errorCode(error) !== 'EEXIST') throw error;
  });
  await lchown(folder, uid, uid);
}

/** Cgroup with a container's limits. Version 1 only, where groups may hold processes and groups. */
export function limitingGroup(text: string): string | null {
  const paths = new Map(
    text.split('\n').flatMap((line): [string, string][] => {
      const [, controllers = '', path = ''] = /^\d+:([^:]*):(\/.+)$/.exec(line) ?? [];
      return controllers.split(',').map((controller) => [controller, path]);
    }),
  );
  const [memory, cpu, pids] = ['memory', 'cpu', 'pids'].map((controller) => paths.get(controller));
  return memory !== undefined && memory === cpu && memory === pids && !memory.includes('..') ? memory : null;
}

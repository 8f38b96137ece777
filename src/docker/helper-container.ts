/**
 * # Helper containers of an engine on another host
 *
 * What a driver does on its own machine with folders and sockets, it does elsewhere by commands in
 * a small container: files of a disk, connections to instances. A container starts with the first
 * command, and ends by itself some time after the last one, so also when Berth is gone.
 */
import type Docker from 'dockerode';
import { setTimeout as sleep } from 'node:timers/promises';
import { SERVE_COMMANDS } from '../domain/compute/serve-commands.ts';
import { openHelperCommand, type HelperCommand } from './helper-command.ts';
import type { DockerClient } from './docker-client.ts';
import { isContainerGone, isImageGone, isNameTaken, isNotRunning, statusOf } from './faults.ts';

export interface HelperContainer {
  name: string;
  image: string;
  labels: Readonly<Record<string, string>>;
  /** Without a command the container ends after this time. */
  idleS: number;
  user: string;
  capabilities: readonly string[];
  network: 'none' | 'host';
  /** Names of volumes by the folder that shows them. */
  volumes: Readonly<Record<string, string>>;
  /** Cards, with the files of their driver. */
  devices?: Docker.DeviceRequest | undefined;
}

export type EnsureImage = (ref: string, signal: AbortSignal) => Promise<void>;

const STATE_FOLDER = '/run/berth-helper';
const PAUSE_MS = 50;
const MIB = 1024 ** 2;

export const helperLimits = {
  ReadonlyRootfs: true,
  CapDrop: ['ALL'],
  SecurityOpt: ['no-new-privileges'],
  Memory: 256 * MIB,
  MemorySwap: 256 * MIB,
};

const createRequest = (helper: HelperContainer): Docker.ContainerCreateOptions => ({
  name: helper.name,
  Image: helper.image,
  Entrypoint: ['sh', '-c', SERVE_COMMANDS, 'sh', STATE_FOLDER, String(helper.idleS)],
  Cmd: [],
  User: helper.user,
  WorkingDir: '/',
  StopSignal: 'SIGTERM',
  Labels: { ...helper.labels },
  Healthcheck: { Test: ['NONE'] },
  HostConfig: {
    ...helperLimits,
    ...(helper.devices && { DeviceRequests: [helper.devices] }),
    CapAdd: [...helper.capabilities],
    NetworkMode: helper.network,
    AutoRemove: true,
    Init: false,
    Tmpfs: { [STATE_FOLDER]: 'size=1m,mode=0777' },
    Mounts: Object.entries(helper.volumes).map(([Target, Source]) => volumeMount(Source, Target, false)),
    LogConfig: { Type: 'none', Config: {} },
  },
});

/** Nothing of the image is copied into the volume. */
export const volumeMount = (Source: string, Target: string, ReadOnly: boolean): Docker.MountSettings => ({
  Type: 'volume',
  Source,
  Target,
  ReadOnly,
  VolumeOptions: { NoCopy: true, Labels: {}, DriverConfig: { Name: 'local', Options: {} } },
});

/** Runs a command in the helper, which starts if it does not run. */
export async function runInHelper(
  client: DockerClient,
  helper: HelperContainer,
  { command, ensureImage, signal }: { command: readonly string[]; ensureImage: EnsureImage; signal: AbortSignal },
): Promise<HelperCommand> {
  for (;;) {
    const id = await ensureHelper(client, helper, ensureImage, signal);
    try {
      return await openHelperCommand(client, id, command, signal);
    } catch (error) {
      // It ended meanwhile, since it was idle.
      if (!isContainerGone(error) && !isNotRunning(error)) throw error;
    }
  }
}

/** Returns the id of the running container. */
export async function ensureHelper(
  client: DockerClient,
  helper: HelperContainer,
  ensureImage: EnsureImage,
  signal: AbortSignal,
): Promise<string> {
  const { docker, call } = client;
  for (;;) {
    const found = await findHelper(client, helper.name, signal);
    if (found !== null && !hasLabels(found, helper.labels))
      throw new Error(`the container ${helper.name} is not of this installation; remove it`);
    if (found?.State.Running) return found.Id;
    // Created only, or on its way out.
    if (found !== null) await removeHelper(client, found.Id, signal);
    const request = { ...createRequest(helper), abortSignal: signal };
    try {
      const { id } = await call(signal, () => docker.createContainer(request));
      await call(signal, (abortSignal) => docker.getContainer(id).start({ abortSignal }));
      return id;
    } catch (error) {
      if (isImageGone(error)) await ensureImage(helper.image, signal);
      else if (!isNameTaken(error) && !isContainerGone(error)) throw error;
    }
    await call(signal, (abortSignal) => sleep(PAUSE_MS, undefined, { signal: abortSignal }));
  }
}

const hasLabels = ({ Config }: Docker.ContainerInspectInfo, labels: HelperContainer['labels']): boolean =>
  Object.entries(labels).every(([name, value]) => Config.Labels[name] === value);

async function findHelper(
  { docker, call }: DockerClient,
  name: string,
  signal: AbortSignal,
): Promise<Docker.ContainerInspectInfo | null> {
  try {
    return await call(signal, (abortSignal) => docker.getContainer(name).inspect({ abortSignal }));
  } catch (error) {
    if (isContainerGone(error)) return null;
    throw error;
  }
}

/** Absent is success, and so is a removal under way, which this call awaits. */
export async function removeHelper({ docker, call }: DockerClient, name: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await call(signal, () => docker.getContainer(name).remove({ force: true, v: true, abortSignal: signal }));
      return;
    } catch (error) {
      if (isContainerGone(error)) return;
      if (statusOf(error) !== 409) throw error;
    }
    await call(signal, (abortSignal) => sleep(PAUSE_MS, undefined, { signal: abortSignal }));
  }
}

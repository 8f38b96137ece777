/**
 * Create options of an instance's container, and with them every right of an instance. Pure.
 *
 * The user inside is root, so isolation is the engine's: a filter of system calls, no new
 * privileges, raw sockets or device nodes; limits on memory with swap, CPU, processes, log, files.
 */
import { openFileLimitOf } from '../../../domain/compute/instance-limits.ts';
import { containerName, labelsOf } from '../../labels.ts';
import type { EngineSpec, HostMount } from '../../contract.ts';
import type { ContainerCreateOptions, MountSettings } from 'dockerode';
import { volumeMount } from '../../../docker/helper-container.ts';
import { isAmd } from '../client/amd-cards.ts';
import { withoutTurn } from '../client/host-gpus.ts';
import type { HostFacts } from '../client/host-facts.ts';
import { instanceFilter } from './call-filter.ts';

const MIB = 1024 * 1024;

export const CONTROL_FOLDER = '/etc/berth';

/** Mounted at the same path in the instance and in the daemon's container. */
export const SOCKET_FOLDER = '/run/berth-docker';

export const TOOLS_FOLDER = '/opt/berth';

export const SETPRIV = 'setpriv';

export interface CreateContext {
  installation: string;
  network: string;
  controlFolder: string;
  toolsFolder?: string | undefined;
  /** The folder of tools has the program. */
  hasSetpriv?: boolean;
  sudo?: boolean;
  dockerSocketFolder?: string | undefined;
  gpuIds: readonly string[];
  imageEnv?: readonly string[];
  /** Device nodes of the GPUs, for the older runtime. */
  gpuNodes?: readonly string[] | undefined;
  /** '': all. */
  processors?: string | undefined;
  host: HostFacts;
}

export function createOptions(spec: EngineSpec, context: CreateContext): ContainerCreateOptions {
  const {
    installation,
    network,
    controlFolder,
    toolsFolder,
    dockerSocketFolder,
    gpuIds,
    gpuNodes = [],
    processors,
    host,
  } = context;
  const bindings: Record<string, { HostIp: string; HostPort: string }[]> = {};
  const exposed: Record<string, Record<string, never>> = {};
  for (const { port, nodePort } of spec.nodePorts) {
    exposed[`${port}/tcp`] = {};
    (bindings[`${port}/tcp`] ??= []).push({ HostIp: spec.nodePortAddress, HostPort: String(nodePort) });
  }
  return {
    name: containerName(spec.id),
    Image: spec.imageRef,
    Hostname: spec.hostname,
    ...processOf(spec, gpuEnv(context), context),
    Healthcheck: { Test: ['NONE'] },
    Labels: labelsOf(installation, { ...spec, kind: 'instance', gpuIds }),
    ExposedPorts: exposed,
    HostConfig: {
      NetworkMode: network,
      ...(spec.dns === undefined ? {} : { Dns: [...spec.dns] }),
      PortBindings: bindings,
      Mounts: [
        { source: controlFolder, target: CONTROL_FOLDER, readOnly: true },
        // A socket accepts connections on a read-only mount, too.
        ...(dockerSocketFolder === undefined
          ? []
          : [{ source: dockerSocketFolder, target: SOCKET_FOLDER, readOnly: true }]),
        ...(toolsFolder === undefined ? [] : [{ source: toolsFolder, target: TOOLS_FOLDER, readOnly: true }]),
        ...spec.mounts,
      ].map(mountOf),
      ...limitsOf(spec, host),
      ...(processors ? { CpusetCpus: processors } : {}),
      ...parentOf(host),
      // PyTorch's data loaders share tensors in /dev/shm; used pages count as instance memory.
      ShmSize: Math.max(64 * MIB, Math.floor((spec.memoryMiB * MIB) / 2)),
      // The default is 1024 or unlimited: too few for data loaders, or slow for close-all loops.
      ...openFilesOf(spec, host, 65_536),
      CapDrop: ['NET_RAW', 'MKNOD'],
      SecurityOpt: [
        ...(mayGainRights(spec, context) ? [] : ['no-new-privileges']),
        ...(host.setsCallFilter ? [`seccomp=${instanceFilter}`] : []),
      ],
      ...(spec.runtime === undefined ? {} : { Runtime: spec.runtime }),
      // Entry points of many images expect to be process 1.
      Init: host.hasInit && spec.imageCommand === undefined,
      RestartPolicy: { Name: 'no' },
      LogConfig: host.podman
        ? { Type: 'k8s-file', Config: { 'max-size': '5m' } }
        : { Type: 'json-file', Config: { 'max-size': '5m', 'max-file': '2' } },
      ...(host.rootDiskLimit && spec.rootDiskGB ? { StorageOpt: { size: `${spec.rootDiskGB}G` } } : {}),
      ...(gpuIds.length > 0 ? { DeviceRequests: [deviceRequest(gpuIds, host)] } : {}),
      // Without them a reload of systemd takes the nodes that the older runtime gives.
      ...(gpuNodes.length > 0 ? { Devices: gpuNodes.map(deviceOf) } : {}),
    },
  };
}

type Rights = Pick<CreateContext, 'sudo' | 'hasSetpriv'>;

/**
 * The engine gives no rights to root in a container of another user without new privileges: there,
 * the image's command alone goes without.
 */
const dropsInside = ({ imageCommand }: EngineSpec, { sudo = false, hasSetpriv = false }: Rights): boolean =>
  !sudo && hasSetpriv && imageCommand?.hasShell === true;

const mayGainRights = (spec: EngineSpec, rights: Rights): boolean => rights.sudo === true || dropsInside(spec, rights);

const WITHOUT_NEW_PRIVILEGES = `${TOOLS_FOLDER}/bin/${SETPRIV} --no-new-privs -- `;

function processOf(spec: EngineSpec, env: readonly string[], rights: Rights): Partial<ContainerCreateOptions> {
  const { imageCommand } = spec;
  if (imageCommand === undefined)
    return {
      Entrypoint: ['/bin/sh', `${CONTROL_FOLDER}/start`],
      Cmd: [],
      User: '0', // a number: an image need not have a passwd file
      WorkingDir: '/root',
      Env: ['HOME=/root', ...env],
      StopSignal: 'SIGTERM',
    };
  const { words, hasShell } = imageCommand;
  const script = `. ${CONTROL_FOLDER}/env; exec ${dropsInside(spec, rights) ? WITHOUT_NEW_PRIVILEGES : ''}"$@"`;
  const Entrypoint = hasShell ? ['/bin/sh', '-c', script, 'sh', ...words] : [...words];
  return { Entrypoint, Cmd: [], Env: [...env] };
}

export function limitsOf({ memoryMiB, cpuMilli, pidsLimit }: EngineSpec, { diskRates }: Pick<HostFacts, 'diskRates'>) {
  const memory = memoryMiB * MIB;
  const rates = diskRates.map(({ device, bytesPerSecond }) => ({ Path: device, Rate: bytesPerSecond }));
  return {
    Memory: memory,
    MemorySwap: memory,
    NanoCpus: cpuMilli * 1_000_000,
    PidsLimit: pidsLimit,
    ...(rates.length === 0 ? {} : { BlkioDeviceReadBps: rates, BlkioDeviceWriteBps: rates }),
  };
}

export const parentOf = ({ cgroupParent }: Pick<HostFacts, 'cgroupParent'>) =>
  cgroupParent === null ? {} : { CgroupParent: cgroupParent };

export function openFilesOf(
  { memoryMiB }: Pick<EngineSpec, 'memoryMiB'>,
  { openFiles, perUser }: Pick<HostFacts, 'openFiles' | 'perUser'>,
  soft = Infinity,
) {
  if (openFiles === null) return {};
  const hard = Math.min(openFiles, openFileLimitOf(memoryMiB));
  const ofUser = perUser.map(({ name, limit }) => ({ Name: name, Soft: limit, Hard: limit }));
  return { Ulimits: [{ Name: 'nofile', Soft: Math.min(soft, hard), Hard: hard }, ...ofUser] };
}

/** A folder of this machine, or a volume of an engine elsewhere by its name. */
const mountOf = (mount: HostMount): MountSettings =>
  mount.source.startsWith('/') ? bindOf(mount) : volumeMount(mount.source, mount.target, mount.readOnly);

export const bindOf = ({ source, target, readOnly }: HostMount) => ({
  Type: 'bind' as const,
  Source: source,
  Target: target,
  ReadOnly: readOnly,
  BindOptions: { Propagation: 'rprivate' as const },
});

/** A name without a value takes the variable from the image: caps of memory, nodes beside cards. */
const NOT_OF_IMAGES = [
  'NVIDIA_GPU_MEMORY_REQUEST',
  'NVIDIA_GPU_MEMORY_LIMIT',
  'NVIDIA_MIG_CONFIG_DEVICES',
  'NVIDIA_MIG_MONITOR_DEVICES',
  'NVIDIA_IMEX_CHANNELS',
  'NVIDIA_NVSWITCH',
  'NVIDIA_GDRCOPY',
  'NVIDIA_MOFED',
  'NVIDIA_GDS',
  'AMD_VISIBLE_DEVICES',
];

/** Without `display`, which brings an X server's files and lets a container reach it. */
const DRIVER_PARTS = ['compute', 'utility', 'video', 'graphics', 'compat32', 'ngx'];

function driverParts(imageEnv: readonly string[]): string {
  const name = 'NVIDIA_DRIVER_CAPABILITIES=';
  const asked = (imageEnv.findLast((line) => line.startsWith(name)) ?? name).slice(name.length).split(',');
  const given = DRIVER_PARTS.filter((part) => asked.includes(part) || asked.includes('all'));
  return name + (given.length > 0 ? given : ['compute', 'utility']).join(',');
}

/** Always set: CUDA images say `all`, which can grant every GPU, and saved images others' GPUs. */
function gpuEnv({ gpuIds, imageEnv = [], host: { gpuDriver } }: CreateContext): string[] {
  const byRuntime = gpuDriver === 'nvidia' ? gpuIds.filter((id) => !isAmd(id)) : [];
  const visible = byRuntime.map(withoutTurn).join(',') || 'void';
  const parts = gpuDriver === null ? [] : [driverParts(imageEnv)];
  return [`NVIDIA_VISIBLE_DEVICES=${visible}`, ...parts, ...NOT_OF_IMAGES];
}

const deviceOf = (node: string) => ({ PathOnHost: node, PathInContainer: node, CgroupPermissions: 'rw' });

const cdiName = (id: string): string => (isAmd(id) ? id : `nvidia.com/gpu=${withoutTurn(id)}`);

const deviceRequest = (ids: readonly string[], host: HostFacts) =>
  host.gpuDriver === 'cdi' || ids.some(isAmd)
    ? { Driver: 'cdi', DeviceIDs: ids.map(cdiName) }
    : { Driver: 'nvidia', DeviceIDs: ids.map(withoutTurn), Capabilities: [['gpu']] };

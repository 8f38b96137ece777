/**
 * From an instance's spec to the engine's create call: pure, so that what an instance may and may not do is read in one place.
 *
 * Inside, its user is root, so the walls are the engine's: default seccomp profile, no new privileges, no raw sockets, no
 * device nodes, limits on memory (swap included), CPU, processes, log and open files.
 */
import { labels, containerName } from '../../labels.ts';
import type { EngineSpec, HostMount } from '../../contract.ts';
import type { ContainerCreateOptions } from 'dockerode';
import type { HostFacts } from '../client/host.ts';

const MIB = 1024 * 1024;

/** Where an instance sees its control files. */
export const CONTROL_FOLDER = '/etc/berth';

/** Where it sees the folder with the socket of its Docker, and the daemon's own container sees it too. */
export const SOCKET_FOLDER = '/run/berth-docker';

/** Where it sees what its image may lack (`tools.ts`). */
export const TOOLS_FOLDER = '/opt/berth';

/** Ids of the GPUs given at create, joined by commas: Docker does not say them in an inspect of every runtime. */
export const gpuLabel = 'berth.gpus';

export interface Placed {
  installation: string;
  network: string;
  controlFolder: string;
  /** Folder of the host with what its image may lack. */
  toolsFolder?: string | undefined;
  /** Folder of the host in which the socket of its Docker is, if it has one. */
  dockerSocketFolder?: string | undefined;
  /** Ids of the devices it gets. */
  gpuIds: readonly string[];
  host: HostFacts;
}

export function createOptions(
  spec: EngineSpec,
  { installation, network, controlFolder, toolsFolder, dockerSocketFolder, gpuIds, host }: Placed,
): ContainerCreateOptions {
  const memory = spec.memoryMiB * MIB;
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
    Entrypoint: ['/bin/sh', `${CONTROL_FOLDER}/start`],
    Cmd: [],
    User: '0', // by number: an image need not have a passwd file
    WorkingDir: '/root',
    Env: ['HOME=/root', ...visibleGpus(gpuIds, host)],
    StopSignal: 'SIGTERM',
    Healthcheck: { Test: ['NONE'] },
    Labels: {
      [labels.installation]: installation,
      [labels.kind]: 'instance',
      [labels.id]: spec.id,
      [labels.owner]: spec.ownerId,
      [labels.generation]: String(spec.generation),
      [labels.imageRef]: spec.imageRef,
      ...(gpuIds.length > 0 ? { [gpuLabel]: gpuIds.join(',') } : {}),
    },
    ExposedPorts: exposed,
    HostConfig: {
      NetworkMode: network,
      PortBindings: bindings,
      Mounts: [
        { source: controlFolder, target: CONTROL_FOLDER, readOnly: true },
        // A socket answers also where nothing can be written.
        ...(dockerSocketFolder === undefined
          ? []
          : [{ source: dockerSocketFolder, target: SOCKET_FOLDER, readOnly: true }]),
        // One who has a disk there, from before it was ours, keeps it.
        ...(toolsFolder === undefined || spec.mounts.some(({ target }) => `${target}/`.startsWith(`${TOOLS_FOLDER}/`))
          ? []
          : [{ source: toolsFolder, target: TOOLS_FOLDER, readOnly: true }]),
        ...spec.mounts,
      ].map(bindOf),
      Memory: memory,
      MemorySwap: memory,
      NanoCpus: spec.cpuMilli * 1_000_000,
      PidsLimit: spec.pidsLimit,
      // PyTorch's data loaders share tensors there; what is used of it counts as memory of the instance.
      ShmSize: Math.max(64 * MIB, Math.floor(memory / 2)),
      // The default is 1024 or without end, by version: too few for data loaders, or slow for what closes all it might have open.
      ...(host.openFiles === null
        ? {}
        : { Ulimits: [{ Name: 'nofile', Soft: Math.min(65_536, host.openFiles), Hard: host.openFiles }] }),
      CapDrop: ['NET_RAW', 'MKNOD'],
      SecurityOpt: ['no-new-privileges'],
      Init: host.hasInit,
      RestartPolicy: { Name: 'no' },
      LogConfig: host.podman
        ? { Type: 'k8s-file', Config: { 'max-size': '5m' } }
        : { Type: 'json-file', Config: { 'max-size': '5m', 'max-file': '2' } },
      ...(host.rootDiskLimit && spec.rootDiskGB ? { StorageOpt: { size: `${spec.rootDiskGB}G` } } : {}),
      ...(gpuIds.length > 0 ? { DeviceRequests: [deviceRequest(gpuIds, host)] } : {}),
    },
  };
}

export const bindOf = ({ source, target, readOnly }: HostMount) => ({
  Type: 'bind' as const,
  Source: source,
  Target: target,
  ReadOnly: readOnly,
  BindOptions: { Propagation: 'rprivate' as const },
});

/**
 * CUDA images say NVIDIA_VISIBLE_DEVICES=all, which hands out every GPU where nvidia's is the default runtime; and an image saved
 * from an instance may say what was said there. So it is always said anew.
 */
function visibleGpus(gpuIds: readonly string[], { gpuDriver }: HostFacts): string[] {
  if (gpuDriver === null) return [];
  return [`NVIDIA_VISIBLE_DEVICES=${gpuDriver === 'nvidia' && gpuIds.length > 0 ? gpuIds.join(',') : 'void'}`];
}

/** Empty for one without: an image saved from an instance with GPUs carries the label with nothing in it. */
export const gpusOf = (found: Record<string, string>): string[] =>
  (found[gpuLabel] ?? '').split(',').filter((id) => id !== '');

const deviceRequest = (ids: readonly string[], host: HostFacts) =>
  host.gpuDriver === 'cdi'
    ? { Driver: 'cdi', DeviceIDs: ids.map((id) => `nvidia.com/gpu=${id}`) }
    : { Driver: 'nvidia', DeviceIDs: [...ids], Capabilities: [['gpu']] };

/** The GPUs for a new container: those nobody was given first, then those whose holders do not run. Null when too few. */
export function chooseGpus(
  count: number,
  devices: readonly string[],
  holders: readonly { ids: readonly string[]; running: boolean }[],
): string[] | null {
  const inUse = new Set(holders.filter(({ running }) => running).flatMap(({ ids }) => ids));
  const given = new Set(holders.flatMap(({ ids }) => ids));
  const free = devices.filter((id) => !inUse.has(id)).sort((a, b) => Number(given.has(a)) - Number(given.has(b)));
  return free.length < count ? null : free.slice(0, count);
}

/** Builds a simulated engine's answers from the state of the host. */
import type {
  Capabilities,
  EngineSpec,
  GpuUsage,
  Observation,
  OwnedObject,
  Probe,
  Usage,
  UsageOptions,
} from '../contract.ts';
import { containerName, dockerName, networkName } from '../labels.ts';
import type { Container } from './container.ts';
import { useOf } from './uses.ts';
import type { SimulatedHost } from './host.ts';

/** Lists instances in all states, the network of each account with instances, and saved images. */
export function ownedBy(host: SimulatedHost, installation: string): OwnedObject[] {
  const instances: OwnedObject[] = [];
  const owners = new Map<EngineSpec['ownerId'], number>();
  for (const { spec, state, createdAtMs, docker } of host.all(installation)) {
    const { id, ownerId, generation, imageRef } = spec;
    owners.set(ownerId, Math.min(owners.get(ownerId) ?? createdAtMs, createdAtMs));
    instances.push({
      kind: 'instance',
      id,
      ownerId,
      generation,
      running: state === 'running',
      engineName: containerName(id),
      createdAtMs,
      imageRef,
      ...(docker && { docker }),
    });
    if (docker === 'running') {
      const about = { id, ownerId, generation, createdAtMs, imageRef: null };
      instances.push({ ...about, kind: 'docker', running: true, engineName: dockerName(id) });
    }
  }
  const networks = [...owners].map(([ownerId, createdAtMs]): OwnedObject => {
    const engineName = networkName(installation, ownerId);
    const about = { id: ownerId, ownerId, generation: 0, createdAtMs, imageRef: null };
    return { ...about, kind: 'network', running: true, engineName };
  });
  const images = [...host.allImages()].flatMap(([engineName, { saved }]): OwnedObject[] => {
    if (saved?.installation !== installation) return [];
    const { id, ownerId, createdAtMs } = saved;
    return [{ kind: 'image', id, ownerId, generation: 0, running: false, engineName, createdAtMs, imageRef: null }];
  });
  return [...instances, ...networks, ...images];
}

/** Protects against later changes of the caller's object. */
export const copyOf = (spec: EngineSpec): EngineSpec => ({
  ...spec,
  mounts: spec.mounts.map((mount) => ({ ...mount })),
  nodePorts: spec.nodePorts.map((pair) => ({ ...pair })),
  files: spec.files.map((file) => ({ ...file })),
  ...(spec.docker && { docker: { ...spec.docker } }),
});

/** Bounds the list for hosts with a million GPUs. */
const listedDevices = 16;

export function probeOf({ capacity }: SimulatedHost, architecture: string, capabilities: Capabilities): Probe {
  const devices = Array.from({ length: Math.min(capacity.gpus, listedDevices) }, (_, index) => ({
    kind: 'gpu' as const,
    name: 'Simulated GPU',
    id: `gpu-${index}`,
  }));
  return {
    version: 'simulation 1',
    capacity: { ...capacity },
    devices,
    architecture,
    capabilities: { ...capabilities },
  };
}

export const lieOf = ({ clock }: SimulatedHost): Observation => ({
  kind: 'present',
  generation: 1,
  running: true,
  exitCode: null,
  outOfMemory: false,
  startedAtMs: clock.now(),
  nodePorts: [],
});

/** Per running millisecond. */
const traffic = { receivedBytes: 6, sentBytes: 4, readBytes: 1, writtenBytes: 2 };
/** Share of the limit that an idle instance uses. */
const restingShare = 0.02;
const gpuMemoryBytes = 80 * 1024 ** 3;

/** A small random load; counters grow evenly from each start. */
export function usageOf(
  { random, clock }: SimulatedHost,
  container: Container | undefined,
  more: UsageOptions,
): Usage | undefined {
  if (container === undefined) return undefined;
  const { state, spec, touchedFiles, script } = container;
  const atMs = clock.now();
  const runs = state === 'running';
  const share = runs ? 0.02 + 0.05 * random() : 0;
  const forMs = runs ? Math.max(0, atMs - container.startedAtMs) : 0;
  const cpu = script.uses.get('cpu') ?? { amount: 0, forMs: 0 };
  const limitBytes = spec.memoryMiB * 1024 * 1024;
  const gpu = (): GpuUsage => {
    const busyPercent = useOf(container, 'gpu', atMs);
    const memoryUsedBytes = Math.round((gpuMemoryBytes * busyPercent) / 100);
    const heat = {
      powerMilliwatts: 60_000 + 3_000 * busyPercent,
      temperatureCelsius: 35 + Math.round(busyPercent / 3),
    };
    return { busyPercent, memoryUsedBytes, memoryTotalBytes: gpuMemoryBytes, ...heat };
  };
  return {
    atMs,
    startedAtMs: runs ? container.startedAtMs : 0,
    cpuMilli: Math.max(10 * useOf(container, 'cpu', atMs), Math.round(spec.cpuMilli * share)),
    cpuOverMs: runs ? 1_000 : 0,
    cpuTimeMs: (forMs * spec.cpuMilli * restingShare) / 1000 + (Math.min(forMs, cpu.forMs) * cpu.amount) / 100,
    memoryBytes: Math.round(limitBytes * share),
    memoryLimitBytes: limitBytes,
    receivedBytes: traffic.receivedBytes * forMs,
    sentBytes: traffic.sentBytes * forMs,
    readBytes: traffic.readBytes * forMs,
    writtenBytes: traffic.writtenBytes * forMs,
    processes: runs ? 3 : 0,
    processLimit: spec.pidsLimit,
    gpus: runs && spec.gpus > 0 ? Array.from({ length: spec.gpus }, gpu) : null,
    rootDiskBytes: more.rootDisk ? 4096 * (1 + touchedFiles.size) : null,
  };
}

export function reachable(host: SimulatedHost, from: Container, address: string, port: number): boolean {
  const other = host.neighbourAt(from, address);
  const stream = other && host.connect(other, port);
  stream?.destroy();
  return stream !== undefined;
}

/** Verbs that report on the host and its instances. */
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { InstanceId, UserId } from '../../domain/kernel/ids.ts';
import type {
  Capabilities,
  Engine,
  GpuUsage,
  Observation,
  OwnedObject,
  Probe,
  Usage,
  UsageOptions,
} from '../contract.ts';
import { containerName, dockerName, networkName } from '../labels.ts';
import { observationOf, useOf, type Container } from './container.ts';
import type { EngineContext } from './context.ts';
import type { SimulatedHost } from './host.ts';

type ObservationVerbs = Pick<Engine, 'probe' | 'listOwned' | 'observe' | 'watch' | 'usage' | 'rootDiskSpace'>;

export function observationVerbs(context: EngineContext, architecture: string): ObservationVerbs {
  const { host, installation, capabilities, call, callEach, find } = context;
  return {
    probe(signal) {
      const probe = (): Probe => probeOf(host, architecture, capabilities);
      return call({ verb: 'probe', about: '', signal, lie: probe }, probe);
    },
    listOwned: (signal) =>
      call({ verb: 'listOwned', about: '', signal, lie: () => [] }, () => ownedBy(host, installation)),
    async observe(ids, signal) {
      try {
        const request = { verb: 'observe', ids, signal, lie: () => lieOf(host) } as const;
        const answers = await callEach(request, (id): Observation => {
          const container = find(id);
          return container === undefined ? { kind: 'absent' } : observationOf(container);
        });
        return new Map([...answers].map(([id, answer]) => [id, orUnknown(answer)]));
      } catch (fault) {
        if (!(fault instanceof EngineFault)) throw fault;
        return new Map(ids.map((id) => [id, orUnknown(fault)]));
      }
    },
    watch: (onHint, signal) => watch(context, onHint, signal),
    async usage(ids, signal, options = {}) {
      const answers = await callEach({ verb: 'usage', ids, signal, lie: () => undefined }, (id) => {
        const container = find(id);
        return container && usageOf(host, container, options);
      });
      const usages = new Map<InstanceId, Usage>();
      for (const [id, usage] of answers) {
        if (usage !== undefined && !(usage instanceof EngineFault)) usages.set(id, usage);
      }
      return usages;
    },
    async rootDiskSpace() {
      const { rootDisksBytes: totalBytes, rootDiskBytes } = host;
      if (totalBytes === null) return null;
      const usedBytes = [...rootDiskBytes.values()].reduce((sum, bytes) => sum + bytes, 0);
      return { totalBytes, freeBytes: Math.max(0, totalBytes - usedBytes), device: 1 };
    },
  };
}

const orUnknown = (answer: Observation | EngineFault): Observation =>
  answer instanceof EngineFault ? { kind: 'unknown', reason: answer.message } : answer;

/** Delays or drops hints as the faults say. */
function watch(context: EngineContext, onHint: (id: InstanceId) => void, signal: AbortSignal): void {
  const { host, installation, draw, sleep, stopped } = context;
  const stop = AbortSignal.any([signal, stopped]);
  if (stop.aborted) return;
  const hint = (id: InstanceId): void => {
    if (!stop.aborted) onHint(id);
  };
  const unsubscribe = host.listen((owner, id) => {
    if (owner !== installation) return;
    const fault = draw('watch', id);
    if (fault === undefined) queueMicrotask(() => hint(id));
    else if (fault.mode === 'late' || fault.mode === 'slow')
      sleep(fault.ms, stop).then(
        () => hint(id),
        () => {},
      );
  });
  stop.addEventListener('abort', unsubscribe, { once: true });
}

/** Lists instances in all states, the network of each account with instances, and saved images. */
export function ownedBy(host: SimulatedHost, installation: string): OwnedObject[] {
  const instances: OwnedObject[] = [];
  const owners = new Map<UserId, number>();
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

/** Bounds the list of a name, for hosts with a million GPUs. */
const listedDevices = 64;

function probeOf({ capacity }: SimulatedHost, architecture: string, capabilities: Capabilities): Probe {
  const names = Object.entries(capacity.gpus).flatMap(([name, count]) =>
    Array.from({ length: Math.min(count, listedDevices) }, () => name),
  );
  const devices = names.map((name, index) => ({ kind: 'gpu' as const, name, id: deviceId(index) }));
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
const deviceId = (index: number): string => `gpu-${index}`;
const gpuMemoryBytes = 80 * 1024 ** 3;

/** A small random load; counters grow evenly from each start. */
function usageOf(host: SimulatedHost, container: Container, { rootDisk = false }: UsageOptions): Usage {
  const { random, clock, rootDiskBytes } = host;
  const { state, spec, touchedFiles, script } = container;
  const atMs = clock.now();
  const runs = state === 'running';
  const share = runs ? 0.02 + 0.05 * random() : 0;
  const forMs = runs ? Math.max(0, atMs - container.startedAtMs) : 0;
  const cpu = script.uses.get('cpu') ?? { amount: 0, forMs: 0 };
  const limitBytes = spec.memoryMiB * 1024 * 1024;
  const gpu = (index: number): GpuUsage => {
    const busyPercent = useOf(container, 'gpu', atMs);
    const memoryUsedBytes = Math.round((gpuMemoryBytes * busyPercent) / 100);
    const heat = {
      powerMilliwatts: 60_000 + 3_000 * busyPercent,
      temperatureCelsius: 35 + Math.round(busyPercent / 3),
    };
    return { deviceId: deviceId(index), busyPercent, memoryUsedBytes, memoryTotalBytes: gpuMemoryBytes, ...heat };
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
    memoryKills: host.memoryKills.get(spec.id) ?? 0,
    gpus: runs && spec.gpus > 0 ? host.gpusOf(container).map(gpu) : null,
    rootDiskBytes: rootDisk ? 4096 * (1 + touchedFiles.size) + (rootDiskBytes.get(spec.id) ?? 0) : null,
  };
}

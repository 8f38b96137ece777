/**
 * Usage from the engine's counters. CPU is the difference of two readings at least a second apart:
 * the previous call's, or one taken now. Facts of a run are cached, and read again when a counter
 * shows another run or the container is gone.
 */
import { makeBoundedMap } from '../../../async/bounded-map.ts';
import { makeSemaphore } from '../../../async/semaphore.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { Engine, Usage, UsageOptions } from '../../contract.ts';
import { containerName } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { gpusOf } from '../container/gpus.ts';
import { hasDocker } from '../container/docker-inside.ts';
import { abortFault, isContainerGone } from '../../../docker/faults.ts';
import { currentGpuId } from '../client/host-gpus.ts';
import type { Host, HostFacts } from '../client/host-facts.ts';
import { countRootDisk } from './root-disk.ts';
import type { ReadGpus } from './gpus.ts';
import { makeReadings, type Reading, type Run } from './readings.ts';
import { isOurs, isRunning, startedAtMs } from '../container/observation.ts';

const MIN_INTERVAL_MS = 1_000;
const INSPECTS_AT_ONCE = 8;
/** Sizing a root disk walks all files: many at once saturate the host's disk. */
const DISKS_AT_ONCE = 4;
const MAX_INSTANCES = 100_000;

interface UsageDeps {
  client: DockerClient;
  installation: string;
  host: Host;
  readGpus: ReadGpus;
}

export function makeUsage({ client, installation, host, readGpus }: UsageDeps): Engine['usage'] {
  const { docker, call } = client;
  const previous = makeBoundedMap<Reading>({ maxEntries: MAX_INSTANCES });
  const runs = makeBoundedMap<Run>({ maxEntries: MAX_INSTANCES });
  const read = makeReadings(client, host);
  const inspects = makeSemaphore(INSPECTS_AT_ONCE, { abortError: abortFault });
  const disks = makeSemaphore(DISKS_AT_ONCE, { abortError: abortFault });

  /** Two readings of one run. Null after its end, for which the engine reports the year 1. */
  async function readTwo(
    id: InstanceId,
    run: Run,
    signal: AbortSignal,
  ): Promise<[since: Reading, now: Reading] | null> {
    let now = await read(id, run, signal);
    const last = previous.get(id);
    const since = last?.startedAtMs === now.startedAtMs && last.atMs <= now.atMs ? last : now;
    const leftMs = MIN_INTERVAL_MS - (now.atMs - since.atMs);
    if (leftMs > 0 && now.atMs > 0) {
      await call(signal, (abortSignal) => sleep(leftMs, undefined, { signal: abortSignal }));
      now = await read(id, run, signal);
    }
    if (now.atMs <= since.atMs) return null;
    previous.set(id, now);
    return [since, now];
  }

  async function inspectRun(id: InstanceId, signal: AbortSignal, options: UsageOptions) {
    const countsHere = options.rootDisk === true && (await host.facts(signal)).countsRootDisks;
    const inspect = (): Promise<ContainerInspectInfo & { SizeRw?: number }> => {
      const request = { size: options.rootDisk === true && !countsHere, abortSignal: signal };
      return call(signal, () => docker.getContainer(containerName(id)).inspect(request));
    };
    const info = await (options.rootDisk ? disks : inspects).run(inspect, { signal });
    runs.delete(id);
    if (!isOurs(info.Config.Labels, installation, id)) return null;
    const rootDiskBytes = countsHere
      ? await disks.run(() => countRootDisk(info, signal), { signal })
      : (info.SizeRw ?? null);
    if (!isRunning(info.State)) return { run: null, rootDiskBytes };
    const run: Run = {
      containerId: info.Id,
      info,
      pid: info.State.Pid,
      startedAtMs: startedAtMs(info.State),
      gpuIds: inHostOrder(gpusOf(info.Config.Labels), await host.facts(signal)),
      hasDocker: hasDocker(info.Mounts),
      cpuNs: 0,
    };
    runs.set(id, run);
    return { run, rootDiskBytes };
  }

  /** Null when the run has ended, or the counters belong to another. */
  async function usageOfRun(
    id: InstanceId,
    run: Run,
    signal: AbortSignal,
    options: UsageOptions,
  ): Promise<Usage | null> {
    const reading = options.countersOnly ? readOnce(id, run, signal) : readTwo(id, run, signal);
    const [two, gpus] = await Promise.all([reading, readGpus(run, signal)]);
    if (two === null || two[1].cpuNs < run.cpuNs) return null;
    run.cpuNs = two[1].cpuNs;
    return usageOf(two, gpus);
  }

  async function readOnce(id: InstanceId, run: Run, signal: AbortSignal): Promise<[Reading, Reading] | null> {
    const now = await read(id, run, signal);
    return now.atMs > 0 ? [now, now] : null;
  }

  async function usageOfInstance(id: InstanceId, signal: AbortSignal, options: UsageOptions): Promise<Usage | null> {
    const cached = options.rootDisk ? undefined : runs.get(id);
    const goneIsNull = (error: unknown): null => {
      if (isContainerGone(error)) return null;
      throw error;
    };
    const usage = cached && (await usageOfRun(id, cached, signal, options).catch(goneIsNull));
    if (usage) return usage;
    const inspected = await inspectRun(id, signal, options);
    if (inspected === null) return null;
    const { run, rootDiskBytes } = inspected;
    const current = (run && (await usageOfRun(id, run, signal, options))) ?? { ...stopped, atMs: Date.now() };
    return { ...current, rootDiskBytes };
  }

  return async (ids, signal, options = {}) => {
    const usages = new Map<InstanceId, Usage>();
    const add = async (id: InstanceId): Promise<void> => {
      try {
        const usage = await usageOfInstance(id, signal, options);
        if (usage !== null) usages.set(id, usage);
      } catch (error) {
        if (isContainerGone(error)) {
          previous.delete(id);
          runs.delete(id);
          return;
        }
        // An unreadable instance is omitted; an engine that is away fails the call.
        if (!(error instanceof EngineFault) && !(error instanceof z.ZodError)) throw error;
        if (error instanceof EngineFault && error.kind === 'unreachable') throw error;
      }
    };
    await Promise.all(ids.map(add));
    return usages;
  };
}

/** nvidia-smi inside lists the GPUs of the container in the order of the host. */
function inHostOrder(ids: readonly string[], { gpus }: HostFacts): readonly string[] {
  const all = gpus.map(({ id }) => id);
  const now = ids.map((id) => currentGpuId(gpus, id));
  return now.toSorted((one, other) => all.indexOf(one) - all.indexOf(other));
}

const stopped: Omit<Usage, 'atMs'> = {
  startedAtMs: 0,
  cpuMilli: 0,
  cpuOverMs: 0,
  cpuTimeMs: 0,
  memoryBytes: 0,
  memoryLimitBytes: null,
  receivedBytes: 0,
  sentBytes: 0,
  readBytes: 0,
  writtenBytes: 0,
  processes: 0,
  processLimit: null,
  gpus: null,
  rootDiskBytes: null,
};

function usageOf([since, { cpuNs, ...now }]: [since: Reading, now: Reading], gpus: Usage['gpus']): Usage {
  const cpuOverMs = now.atMs - since.atMs;
  // CPU nanoseconds per millisecond, in thousandths of a core.
  const cpuMilli = cpuOverMs === 0 ? 0 : Math.max(0, Math.round((cpuNs - since.cpuNs) / 1000 / cpuOverMs));
  return { ...now, cpuMilli, cpuOverMs, cpuTimeMs: cpuNs / 1e6, gpus, rootDiskBytes: null };
}

/**
 * # Usage
 *
 * The metrics API has CPU and memory of all Pods, up to a minute old, in one call. An instance that
 * it does not know yet, and one whose exact figures are asked for, is read by a command inside.
 * The counter of CPU time goes on from the one to the other.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { makeBoundedMap } from '../../async/bounded-map.ts';
import { makeSemaphore } from '../../async/semaphore.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { Pod, PodMetrics } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { Engine, Usage, UsageOptions } from '../contract.ts';
import { ownPod, type ClusterContext } from './cluster-context.ts';
import { faultOf } from './cluster-faults.ts';
import { runInside } from './inside/run-inside.ts';
import { parseReading, READ_COUNTERS, type InsideReading } from './inside/usage-reading.ts';
import { DOCKER_CONTAINER } from './manifests/docker-sidecar.ts';
import { MAIN_CONTAINER, ownedSelector, podName } from './manifests/object-names.ts';
import { isRunning, mainStatusOf, timeOf } from './state/run-state.ts';
import { milliOf, quantityOf } from './state/quantity.ts';

const MIN_INTERVAL_MS = 1_000;
const READINGS_AT_ONCE = 8;
/** Fewer are read one by one. */
const LIST_FROM = 4;
const MAX_INSTANCES = 100_000;

interface CpuCounter {
  startedAtMs: number;
  /** Time up to which `cpuTimeMs` counts. */
  atMs: number;
  cpuTimeMs: number;
}

export function makeClusterUsage(context: ClusterContext): Engine['usage'] {
  const { cluster, installation } = context;
  const counters = makeBoundedMap<CpuCounter>({ maxEntries: MAX_INSTANCES });
  const readings = makeSemaphore(READINGS_AT_ONCE);

  async function podsOf(ids: readonly InstanceId[], signal: AbortSignal): Promise<Map<InstanceId, Pod>> {
    const found = new Map<InstanceId, Pod>();
    if (ids.length < LIST_FROM) {
      const add = async (id: InstanceId): Promise<void> => {
        const pod = await ownPod(context, id, signal);
        if (pod !== null) found.set(id, pod);
      };
      await Promise.all(ids.map(add));
      return found;
    }
    const all = await cluster.list(resources.pods, signal, { labelSelector: ownedSelector(installation, 'instance') });
    const byName = new Map(all.map((pod) => [pod.metadata?.name, pod]));
    for (const id of ids) {
      const pod = byName.get(podName(id));
      if (pod !== undefined) found.set(id, pod);
    }
    return found;
  }

  /** Empty without a metrics server. */
  async function metricsOf(signal: AbortSignal): Promise<Map<string | undefined, PodMetrics>> {
    try {
      const all = await cluster.list(resources.podMetrics, signal, {
        labelSelector: ownedSelector(installation, 'instance'),
      });
      return new Map(all.map((one) => [one.metadata?.name, one]));
    } catch (error) {
      if (isFailure(error, 'absent', 'unavailable', 'forbidden')) return new Map();
      throw error;
    }
  }

  async function readInside(id: InstanceId, pod: Pod, signal: AbortSignal, isSingle: boolean): Promise<Usage | null> {
    const read = async (): Promise<InsideReading | null> => {
      const { exitCode, stdout } = await runInside(context, id, ['/bin/sh', '-c', READ_COUNTERS], signal);
      return exitCode === 0 ? parseReading(stdout, Date.now()) : null;
    };
    const first = await readings.run(read, { signal });
    if (first === null) return null;
    let [since, now] = [first, first];
    if (isSingle) {
      await delay(MIN_INTERVAL_MS, undefined, { signal });
      const second = await readings.run(read, { signal });
      if (second !== null) [since, now] = [first, second];
    }
    const startedAtMs = startOf(pod);
    const { cpuNs, ...gauges } = now;
    counters.set(id, { startedAtMs, atMs: now.atMs, cpuTimeMs: cpuNs / 1e6 });
    const cpuOverMs = now.atMs - since.atMs;
    return {
      ...gauges,
      startedAtMs,
      cpuMilli: cpuOverMs === 0 ? 0 : Math.max(0, Math.round((cpuNs - since.cpuNs) / 1000 / cpuOverMs)),
      cpuOverMs,
      cpuTimeMs: cpuNs / 1e6,
      memoryLimitBytes: memoryLimitOf(pod),
      gpus: null,
      rootDiskBytes: null,
    };
  }

  function fromMetrics(id: InstanceId, pod: Pod, { timestamp, window, containers }: PodMetrics): Usage | null {
    const startedAtMs = startOf(pod);
    const atMs = timeOf(timestamp);
    const used = containers.filter(({ name }) => name === MAIN_CONTAINER || name === DOCKER_CONTAINER);
    // An average that began before the run is that of another Pod.
    if (used.length === 0 || atMs <= startedAtMs) return null;
    const cpuMilli = used.reduce((sum, { usage }) => sum + milliOf(usage.cpu), 0);
    const before = counters.get(id);
    const last = before?.startedAtMs === startedAtMs ? before : { startedAtMs, atMs: startedAtMs, cpuTimeMs: 0 };
    const cpuTimeMs = last.cpuTimeMs + (cpuMilli * Math.max(0, atMs - last.atMs)) / 1000;
    counters.set(id, { startedAtMs, atMs: Math.max(atMs, last.atMs), cpuTimeMs });
    return {
      ...unknownFigures,
      atMs,
      startedAtMs,
      cpuMilli,
      cpuOverMs: Math.max(MIN_INTERVAL_MS, quantityOf(window.replace(/s$/, '')) * 1000),
      cpuTimeMs,
      memoryBytes: used.reduce((sum, { usage }) => sum + quantityOf(usage.memory), 0),
      memoryLimitBytes: memoryLimitOf(pod),
    };
  }

  async function usageOf(
    ids: readonly InstanceId[],
    signal: AbortSignal,
    { countersOnly = false }: UsageOptions,
  ): Promise<Map<InstanceId, Usage>> {
    const found = new Map<InstanceId, Usage>();
    const pods = await podsOf(ids, signal);
    const metrics =
      countersOnly && ids.length >= LIST_FROM ? await metricsOf(signal) : new Map<string | undefined, PodMetrics>();
    const one = async (id: InstanceId, pod: Pod): Promise<void> => {
      if (!isRunning(pod)) return void found.set(id, { ...stopped, atMs: Date.now() });
      const known = metrics.get(podName(id));
      const usage = known && fromMetrics(id, pod, known);
      const read = usage ?? (await readInside(id, pod, signal, !countersOnly).catch(unlessAway));
      if (read !== null) found.set(id, read);
    };
    await Promise.all([...pods].map(([id, pod]) => one(id, pod)));
    return found;
  }

  return async (ids, signal, options = {}) => {
    try {
      return await usageOf(ids, signal, options);
    } catch (error) {
      throw faultOf(error);
    }
  };
}

/** An unreadable instance is omitted; a cluster that is away fails the call. */
function unlessAway(error: unknown): null {
  const fault = faultOf(error);
  if (fault.kind === 'unreachable') throw fault;
  return null;
}

const startOf = (pod: Pod): number => timeOf(mainStatusOf(pod)?.state?.running?.startedAt);

function memoryLimitOf(pod: Pod): number | null {
  const limit = pod.spec?.containers.find(({ name }) => name === MAIN_CONTAINER)?.resources?.limits?.['memory'];
  return limit === undefined ? null : quantityOf(limit);
}

const unknownFigures = {
  receivedBytes: null,
  sentBytes: null,
  readBytes: null,
  writtenBytes: null,
  processes: null,
  processLimit: null,
  gpus: null,
  rootDiskBytes: null,
};

const stopped: Omit<Usage, 'atMs'> = {
  ...unknownFigures,
  startedAtMs: 0,
  cpuMilli: 0,
  cpuOverMs: 0,
  cpuTimeMs: 0,
  memoryBytes: 0,
  memoryLimitBytes: null,
  processes: 0,
};

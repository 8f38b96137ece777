/**
 * # Usage
 *
 * Sampling reads the metrics API alone, which has CPU and memory of all Pods in one call: commands
 * in each Pod would be thousands of calls a minute. A Pod is in it within a minute of its start.
 * Exact figures of one instance are read by a command inside. The counter of CPU time goes on from
 * the one to the other.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { makeBoundedMap } from '../../async/bounded-map.ts';
import { makeSemaphore } from '../../async/semaphore.ts';
import { isFailure } from '../../kubernetes/api-error.ts';
import type { PodMetrics } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { Engine, Usage, UsageOptions } from '../contract.ts';
import { ownPod, type ClusterContext } from './cluster-context.ts';
import { faultOf } from './cluster-faults.ts';
import { remember } from './cluster-facts.ts';
import { runInside } from './inside/run-inside.ts';
import { parseReading, READ_COUNTERS, type InsideReading } from './inside/usage-reading.ts';
import { DOCKER_CONTAINER } from './manifests/docker-sidecar.ts';
import { MAIN_CONTAINER, ownedSelector, podName } from './manifests/object-names.ts';
import { timeOf } from './state/pod-status.ts';
import { runOf, type PodRun } from './state/run-state.ts';
import { milliOf, quantityOf } from '../../kubernetes/quantity.ts';

const MIN_INTERVAL_MS = 1_000;
const READINGS_AT_ONCE = 8;
/** Metrics servers measure two to four times a minute. */
const METRICS_MS = 28_000;
const MAX_INSTANCES = 100_000;

interface CpuCounter {
  startedAtMs: number;
  /** Time up to which `cpuTimeMs` counts. */
  atMs: number;
  cpuTimeMs: number;
}

export function makeClusterUsage(context: ClusterContext): Engine['usage'] {
  const { cluster, installation, pods } = context;
  const counters = makeBoundedMap<CpuCounter>({ maxEntries: MAX_INSTANCES });
  const readings = makeSemaphore(READINGS_AT_ONCE);

  /** Empty without a metrics server. */
  const metrics = remember(METRICS_MS, async (signal): Promise<Map<string | undefined, PodMetrics>> => {
    try {
      const all = await cluster.list(resources.podMetrics, signal, {
        labelSelector: ownedSelector(installation, 'instance'),
      });
      return new Map(all.map((one) => [one.metadata?.name, one]));
    } catch (error) {
      if (isFailure(error, 'absent', 'unavailable', 'forbidden')) return new Map();
      throw error;
    }
  });

  async function readInside(
    id: InstanceId,
    { startedAtMs, memoryLimitBytes }: PodRun,
    signal: AbortSignal,
    countersOnly: boolean,
  ): Promise<Usage | null> {
    const read = async (): Promise<InsideReading | null> => {
      const { exitCode, stdout } = await runInside(context, id, ['/bin/sh', '-c', READ_COUNTERS], signal);
      return exitCode === 0 ? parseReading(stdout, Date.now()) : null;
    };
    const first = await readings.run(read, { signal });
    if (first === null) return null;
    let [since, now] = [first, first];
    if (!countersOnly) {
      await delay(MIN_INTERVAL_MS, undefined, { signal });
      const second = await readings.run(read, { signal });
      if (second !== null) [since, now] = [first, second];
    }
    const { cpuNs, ...gauges } = now;
    counters.set(id, { startedAtMs, atMs: now.atMs, cpuTimeMs: cpuNs / 1e6 });
    const cpuOverMs = now.atMs - since.atMs;
    return {
      ...gauges,
      startedAtMs,
      cpuMilli: cpuOverMs === 0 ? 0 : Math.max(0, Math.round((cpuNs - since.cpuNs) / 1000 / cpuOverMs)),
      cpuOverMs,
      cpuTimeMs: cpuNs / 1e6,
      memoryLimitBytes,
      gpus: null,
      rootDiskBytes: null,
    };
  }

  /** Null without a new figure. */
  function fromMetrics(
    id: InstanceId,
    { startedAtMs, memoryLimitBytes }: PodRun,
    { timestamp, window, containers }: PodMetrics,
  ): Usage | null {
    const atMs = timeOf(timestamp);
    const used = containers.filter(({ name }) => name === MAIN_CONTAINER || name === DOCKER_CONTAINER);
    const before = counters.get(id);
    // An average that began before the run is that of another Pod.
    if (used.length === 0 || atMs <= Math.max(startedAtMs, before?.atMs ?? 0)) return null;
    const cpuMilli = used.reduce((sum, { usage }) => sum + milliOf(usage.cpu), 0);
    const last = before?.startedAtMs === startedAtMs ? before : { startedAtMs, atMs: startedAtMs, cpuTimeMs: 0 };
    const cpuTimeMs = last.cpuTimeMs + (cpuMilli * (atMs - last.atMs)) / 1000;
    counters.set(id, { startedAtMs, atMs, cpuTimeMs });
    return {
      ...unknownFigures,
      atMs,
      startedAtMs,
      cpuMilli,
      cpuOverMs: Math.max(MIN_INTERVAL_MS, quantityOf(window.replace(/s$/, '')) * 1000),
      cpuTimeMs,
      memoryBytes: used.reduce((sum, { usage }) => sum + quantityOf(usage.memory), 0),
      memoryLimitBytes,
    };
  }

  async function sampled(ids: readonly InstanceId[], signal: AbortSignal): Promise<Map<InstanceId, Usage>> {
    const [runs, figures] = await Promise.all([pods.runs(signal), metrics(signal)]);
    const found = new Map<InstanceId, Usage>();
    for (const id of ids) {
      const [run, figure] = [runs.get(podName(id)), figures.get(podName(id))];
      const usage = run && figure ? fromMetrics(id, run, figure) : null;
      if (usage !== null) found.set(id, usage);
    }
    return found;
  }

  async function exact(
    ids: readonly InstanceId[],
    signal: AbortSignal,
    { countersOnly = false }: UsageOptions,
  ): Promise<Map<InstanceId, Usage>> {
    const usages = new Map<InstanceId, Usage>();
    const one = async (id: InstanceId): Promise<void> => {
      const pod = await ownPod(context, id, signal);
      if (pod === null) return;
      const run = runOf(pod);
      const usage =
        run === null
          ? { ...stopped, atMs: Date.now() }
          : await readInside(id, run, signal, countersOnly).catch(unlessAway);
      if (usage !== null) usages.set(id, usage);
    };
    await Promise.all(ids.map(one));
    return usages;
  }

  return async (ids, signal, options = {}) => {
    try {
      return await (options.sampling ? sampled(ids, signal) : exact(ids, signal, options));
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

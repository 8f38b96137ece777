/**
 * What instances use, read from the engine's counters. One reading is an instant and costs
 * milliseconds; CPU is the difference of two, which are a second apart at least: the last one that
 * was asked for, or one taken now for whoever was never asked about.
 *
 * The engine tells counters of one container at a time, and little of what stays as it is: that is
 * looked up once for each run, and again when a counter says that another run has begun, or the
 * container is gone.
 */
import { makeSemaphore } from '../../../async/semaphore.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { InstanceId } from '../../../domain/ids.ts';
import type { Usage, UsageOptions } from '../../contract.ts';
import { containerName, dockerName } from '../../labels.ts';
import { bytesOfProcesses, hasPartsHere, makeDeviceBytes } from './block-io.ts';
import type { Client } from '../client/client.ts';
import { gpusOf } from '../container/gpus.ts';
import { hasDocker } from '../container/docker-inside.ts';
import { abortFault, isContainerGone } from '../client/faults.ts';
import { gpuCommand, parseGpus } from './gpu-usage.ts';
import type { Host } from '../client/host.ts';
import { runCommand } from '../exec/run-command.ts';
import { isOurs, isRunning, startedAtMs } from '../container/observation.ts';

/** Shorter, and CPU is chance. */
const SHORTEST_MS = 1_000;
const GPU_DEADLINE_MS = 5_000;
/** Some engines let each wait for their next tick, up to a second, which costs them nothing. */
const READINGS_AT_ONCE = 64;
const INSPECTS_AT_ONCE = 8;
/**
 * A root disk's size is counted file by file: few at once, or the host's disk has no time for
 * anything else.
 */
const DISKS_AT_ONCE = 2;

const device = z.object({ major: z.number(), minor: z.number(), op: z.string(), value: z.number() });
const statsAnswer = z.object({
  read: z.string(),
  cpu_stats: z.object({ cpu_usage: z.object({ total_usage: z.number() }) }),
  memory_stats: z
    .object({
      usage: z.number().optional(),
      limit: z.number().optional(),
      stats: z.record(z.string(), z.number()).nullish(),
    })
    .nullish(),
  networks: z.record(z.string(), z.object({ rx_bytes: z.number(), tx_bytes: z.number() })).nullish(),
  blkio_stats: z.object({ io_service_bytes_recursive: z.array(device).nullish() }).nullish(),
  pids_stats: z.object({ current: z.number().optional(), limit: z.number().optional() }).nullish(),
});

interface Reading extends Pick<
  Usage,
  | 'memoryBytes'
  | 'memoryLimitBytes'
  | 'receivedBytes'
  | 'sentBytes'
  | 'readBytes'
  | 'writtenBytes'
  | 'processes'
  | 'processLimit'
> {
  startedAtMs: number;
  atMs: number;
  cpuNs: number;
}

/** What stays as it is for one run. */
interface Run {
  containerId: string;
  info: Pick<ContainerInspectInfo, 'Id' | 'State'>;
  /** Of its first process, on the engine's host. */
  pid: number;
  startedAtMs: number;
  hasGpus: boolean;
  hasDocker: boolean;
  /** As last counted: less is another run's. */
  cpuNs: number;
}

/** As an inspect of now tells; null: it does not run. */
interface Looked {
  run: Run | null;
  rootDiskBytes: number | null;
}

export type ReadUsage = (
  ids: readonly InstanceId[],
  signal: AbortSignal,
  more: UsageOptions,
) => Promise<Map<InstanceId, Usage>>;

export function makeUsage(client: Client, installation: string, host: Host): ReadUsage {
  const { docker, call } = client;
  /** What the next mean is taken from. */
  const before = new Map<InstanceId, Reading>();
  const runs = new Map<InstanceId, Run>();
  const deviceBytes = makeDeviceBytes(client.local ? hasPartsHere : async () => false);
  const readings = makeSemaphore(READINGS_AT_ONCE, { abortError: abortFault });
  const inspects = makeSemaphore(INSPECTS_AT_ONCE, { abortError: abortFault });
  const disks = makeSemaphore(DISKS_AT_ONCE, { abortError: abortFault });

  async function readOne(
    container: string,
    { startedAtMs: runSinceMs, pid }: Pick<Run, 'startedAtMs' | 'pid'>,
    signal: AbortSignal,
  ): Promise<Reading> {
    const oneShot = { stream: false as const, 'one-shot': true, abortSignal: signal };
    const answer = await readings.run(() => call(signal, () => docker.getContainer(container).stats(oneShot)), {
      signal,
    });
    const {
      read: at,
      cpu_stats: cpu,
      memory_stats: memory,
      networks,
      blkio_stats,
      pids_stats: pids,
    } = statsAnswer.parse(answer);
    // The page cache that the kernel would give back at once is no use of the instance's; version 1
    // of cgroups calls it total_.
    const cache = memory?.stats?.['total_inactive_file'] ?? memory?.stats?.['inactive_file'] ?? 0;
    const interfaces = Object.values(networks ?? {});
    const { cgroupVersion } = await host.facts(signal);
    const blocks =
      cgroupVersion === 1
        ? await bytesOfProcesses(client.local ? pid : 0)
        : await deviceBytes(blkio_stats?.io_service_bytes_recursive ?? []);
    return {
      startedAtMs: runSinceMs,
      atMs: Date.parse(at),
      cpuNs: cpu.cpu_usage.total_usage,
      memoryBytes: Math.max(0, (memory?.usage ?? 0) - cache),
      memoryLimitBytes: limitOf(memory?.limit),
      receivedBytes: interfaces.reduce((sum, one) => sum + one.rx_bytes, 0),
      sentBytes: interfaces.reduce((sum, one) => sum + one.tx_bytes, 0),
      ...blocks,
      processes: pids?.current ?? null,
      processLimit: limitOf(pids?.limit),
    };
  }

  async function read(id: InstanceId, run: Run, signal: AbortSignal): Promise<Reading> {
    const own = await readOne(run.containerId, run, signal);
    // Under the instance's limits its Docker is counted with it. The network is one in any case.
    if (!run.hasDocker || (await host.facts(signal)).sharesLimits) return own;
    try {
      const beside = await readOne(dockerName(id), { ...run, pid: 0 }, signal);
      return {
        ...own,
        cpuNs: own.cpuNs + beside.cpuNs,
        memoryBytes: own.memoryBytes + beside.memoryBytes,
        memoryLimitBytes: both(own.memoryLimitBytes, beside.memoryLimitBytes),
        readBytes: both(own.readBytes, beside.readBytes),
        writtenBytes: both(own.writtenBytes, beside.writtenBytes),
        processes: both(own.processes, beside.processes),
        processLimit: both(own.processLimit, beside.processLimit),
      };
    } catch (error) {
      if (isContainerGone(error)) return own;
      throw error;
    }
  }

  /**
   * Two readings of the same run, far enough apart. Null when it ended meanwhile: then the engine's
   * date is of the year 1.
   */
  async function readTwo(
    id: InstanceId,
    run: Run,
    signal: AbortSignal,
  ): Promise<[since: Reading, now: Reading] | null> {
    let now = await read(id, run, signal);
    const last = before.get(id);
    const since = last?.startedAtMs === now.startedAtMs && last.atMs <= now.atMs ? last : now;
    const leftMs = SHORTEST_MS - (now.atMs - since.atMs);
    if (leftMs > 0 && now.atMs > 0) {
      await call(signal, (abortSignal) => sleep(leftMs, undefined, { signal: abortSignal }));
      now = await read(id, run, signal);
    }
    if (now.atMs <= since.atMs) return null;
    if (before.size > 100_000) before.clear();
    before.set(id, now);
    return [since, now];
  }

  /** Asked of the driver's own tool inside, as the engine counts no GPUs. */
  async function gpusIn({ info, hasGpus }: Run, signal: AbortSignal): Promise<Usage['gpus']> {
    if (!hasGpus) return null;
    const within = AbortSignal.any([signal, AbortSignal.timeout(GPU_DEADLINE_MS)]);
    const told = await runCommand({ client, info, command: gpuCommand, signal: within }).catch(() => null);
    return told?.exitCode === 0 ? parseGpus(told.stdout) : null;
  }

  async function look(id: InstanceId, signal: AbortSignal, more: UsageOptions): Promise<Looked | null> {
    const inspect = (): Promise<ContainerInspectInfo & { SizeRw?: number }> => {
      const request = { size: more.rootDisk === true, abortSignal: signal };
      return call(signal, () => docker.getContainer(containerName(id)).inspect(request));
    };
    const info = await (more.rootDisk ? disks : inspects).run(inspect, { signal });
    runs.delete(id);
    if (!isOurs(info.Config.Labels, installation, id)) return null;
    const rootDiskBytes = more.rootDisk ? (info.SizeRw ?? null) : null;
    if (!isRunning(info.State)) return { run: null, rootDiskBytes };
    const run: Run = {
      containerId: info.Id,
      info,
      pid: info.State.Pid,
      startedAtMs: startedAtMs(info.State),
      hasGpus: gpusOf(info.Config.Labels).length > 0,
      hasDocker: hasDocker(info.Mounts),
      cpuNs: 0,
    };
    if (runs.size > 100_000) runs.clear();
    runs.set(id, run);
    return { run, rootDiskBytes };
  }

  /** By what is known of its run; null when that has ended, or may have. */
  /** Null when the run has ended, or another one counts by now. */
  async function ofRun(id: InstanceId, run: Run, signal: AbortSignal, more: UsageOptions): Promise<Usage | null> {
    const reading = more.countersOnly ? readOnce(id, run, signal) : readTwo(id, run, signal);
    const [two, gpus] = await Promise.all([reading, gpusIn(run, signal)]);
    if (two === null || two[1].cpuNs < run.cpuNs) return null;
    run.cpuNs = two[1].cpuNs;
    return usageOf(two, gpus);
  }

  async function readOnce(id: InstanceId, run: Run, signal: AbortSignal): Promise<[Reading, Reading] | null> {
    const now = await read(id, run, signal);
    return now.atMs > 0 ? [now, now] : null;
  }

  async function one(id: InstanceId, signal: AbortSignal, more: UsageOptions): Promise<Usage | null> {
    const known = more.rootDisk ? undefined : runs.get(id);
    const goneIsNull = (error: unknown): null => {
      if (isContainerGone(error)) return null;
      throw error;
    };
    const told = known && (await ofRun(id, known, signal, more).catch(goneIsNull));
    if (told) return told;
    const looked = await look(id, signal, more);
    if (looked === null) return null;
    const { run, rootDiskBytes } = looked;
    const used = (run && (await ofRun(id, run, signal, more))) ?? { ...nothing, atMs: Date.now() };
    return { ...used, rootDiskBytes };
  }

  return async (ids, signal, more) => {
    const found = new Map<InstanceId, Usage>();
    const ask = async (id: InstanceId): Promise<void> => {
      try {
        const usage = await one(id, signal, more);
        if (usage !== null) found.set(id, usage);
      } catch (error) {
        if (isContainerGone(error)) return void (before.delete(id) || runs.delete(id));
        // One that can't be read says nothing of the others; an engine that is away does.
        if (!(error instanceof EngineFault) && !(error instanceof z.ZodError)) throw error;
        if (error instanceof EngineFault && error.kind === 'unreachable') throw error;
      }
    };
    await Promise.all(ids.map(ask));
    return found;
  };
}

const nothing: Omit<Usage, 'atMs'> = {
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
  // Nanoseconds of CPU in a millisecond, as thousandths of a core.
  const cpuMilli = cpuOverMs === 0 ? 0 : Math.max(0, Math.round((cpuNs - since.cpuNs) / 1000 / cpuOverMs));
  return { ...now, cpuMilli, cpuOverMs, cpuTimeMs: cpuNs / 1e6, gpus, rootDiskBytes: null };
}

/** Where there is none the kernel says its largest number, as near as JSON's can be. */
const limitOf = (told: number | undefined): number | null =>
  told === undefined || told === 0 || told > Number.MAX_SAFE_INTEGER ? null : told;

const both = (one: number | null, other: number | null): number | null =>
  one === null || other === null ? null : one + other;

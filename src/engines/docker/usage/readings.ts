import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import { makeSemaphore } from '../../../async/semaphore.ts';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import type { Usage } from '../../contract.ts';
import { dockerName } from '../../labels.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { abortFault, isContainerGone } from '../../../docker/faults.ts';
import type { Host } from '../client/host-facts.ts';
import { memoryKillsOf } from '../host/process-group.ts';
import { bytesOfProcesses, hasPartsHere, makeDeviceBytes } from './block-io.ts';

/** Some engines delay each answer to their next tick, up to a second, at no cost. */
const READINGS_AT_ONCE = 64;

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

export interface Reading extends Omit<Usage, 'cpuMilli' | 'cpuOverMs' | 'cpuTimeMs' | 'gpus' | 'rootDiskBytes'> {
  cpuNs: number;
}

export interface Run {
  containerId: string;
  info: Pick<ContainerInspectInfo, 'Id' | 'State'>;
  pid: number;
  startedAtMs: number;
  /** In the order of the host. */
  gpuIds: readonly string[];
  hasDocker: boolean;
  /** Last CPU counter; a lower one belongs to another run. */
  cpuNs: number;
}

export type TakeReading = (id: InstanceId, run: Run, signal: AbortSignal) => Promise<Reading>;

export function makeReadings(client: DockerClient, host: Host): TakeReading {
  const { docker, call } = client;
  const deviceBytes = makeDeviceBytes(client.local ? hasPartsHere : async () => false);
  const readings = makeSemaphore(READINGS_AT_ONCE, { abortError: abortFault });

  async function readOne(
    container: string,
    { startedAtMs: runSinceMs, pid }: Pick<Run, 'startedAtMs' | 'pid'>,
    signal: AbortSignal,
  ): Promise<Reading> {
    const oneShot = { stream: false as const, 'one-shot': true, abortSignal: signal };
    const answer = await readings.run(() => call(signal, () => docker.getContainer(container).stats(oneShot)), {
      signal,
    });
    const stats = statsAnswer.parse(answer);
    const { memory_stats: memory, pids_stats: pids } = stats;
    // Reclaimable page cache is not counted; cgroups version 1 names it total_.
    const cache = memory?.stats?.['total_inactive_file'] ?? memory?.stats?.['inactive_file'] ?? 0;
    const interfaces = Object.values(stats.networks ?? {});
    const { cgroupVersion } = await host.facts(signal);
    const blocks =
      cgroupVersion === 1
        ? await bytesOfProcesses(client.local ? pid : 0)
        : await deviceBytes(stats.blkio_stats?.io_service_bytes_recursive ?? []);
    return {
      startedAtMs: runSinceMs,
      atMs: Date.parse(stats.read),
      cpuNs: stats.cpu_stats.cpu_usage.total_usage,
      memoryBytes: Math.max(0, (memory?.usage ?? 0) - cache),
      memoryLimitBytes: limitOf(memory?.limit),
      receivedBytes: interfaces.reduce((sum, { rx_bytes }) => sum + rx_bytes, 0),
      sentBytes: interfaces.reduce((sum, { tx_bytes }) => sum + tx_bytes, 0),
      ...blocks,
      processes: pids?.current ?? null,
      processLimit: limitOf(pids?.limit),
      memoryKills: client.local && pid > 0 ? await memoryKillsOf(pid) : undefined,
    };
  }

  async function read(id: InstanceId, run: Run, signal: AbortSignal): Promise<Reading> {
    const own = await readOne(run.containerId, run, signal);
    // A daemon under the instance's limits is counted with it. The network is always shared.
    if (!run.hasDocker || (await host.facts(signal)).sharesLimits) return own;
    try {
      const daemon = await readOne(dockerName(id), { ...run, pid: 0 }, signal);
      return {
        ...own,
        cpuNs: own.cpuNs + daemon.cpuNs,
        memoryBytes: own.memoryBytes + daemon.memoryBytes,
        memoryLimitBytes: sumOrNull(own.memoryLimitBytes, daemon.memoryLimitBytes),
        readBytes: sumOrNull(own.readBytes, daemon.readBytes),
        writtenBytes: sumOrNull(own.writtenBytes, daemon.writtenBytes),
        processes: sumOrNull(own.processes, daemon.processes),
        processLimit: sumOrNull(own.processLimit, daemon.processLimit),
      };
    } catch (error) {
      if (isContainerGone(error)) return own;
      throw error;
    }
  }

  return read;
}

/** Null for "no limit", which the kernel reports as its largest number. */
const limitOf = (limit: number | undefined): number | null =>
  limit === undefined || limit === 0 || limit > Number.MAX_SAFE_INTEGER ? null : limit;

const sumOrNull = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : a + b);

/**
 * What instances use, read from the engine's counters. One reading is an instant and costs milliseconds; CPU is the difference of
 * two, which are a second apart at least: the last one that was asked for, or one taken now for whoever was never asked about.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ContainerInspectInfo } from 'dockerode';
import { z } from 'zod';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { Usage } from '../contract.ts';
import { containerName, dockerName } from '../labels.ts';
import type { Client } from './client.ts';
import { gpusOf } from './create-options.ts';
import { hasDocker } from './docker-inside.ts';
import { isContainerGone } from './faults.ts';
import type { Host } from './host.ts';
import { runInside } from './inside.ts';
import { isOurs, isRunning, startedAtMs } from './observation.ts';
import { makeGate } from './turns.ts';

/** Shorter, and CPU is chance. */
const SHORTEST_MS = 1_000;
const GPU_DEADLINE_MS = 5_000;
/** Some engines let each wait for their next tick, up to a second, which costs them nothing. */
const READINGS_AT_ONCE = 64;
const INSPECTS_AT_ONCE = 8;
/** A root disk's size is counted file by file: few at once, or the host's disk has no time for anything else. */
const DISKS_AT_ONCE = 2;

const statsAnswer = z.object({
  read: z.string(),
  cpu_stats: z.object({ cpu_usage: z.object({ total_usage: z.number() }) }),
  memory_stats: z.object({ usage: z.number().optional(), stats: z.record(z.string(), z.number()).nullish() }).nullish(),
  networks: z.record(z.string(), z.object({ rx_bytes: z.number(), tx_bytes: z.number() })).nullish(),
});

interface Reading {
  startedAtMs: number;
  atMs: number;
  cpuNs: number;
  memoryBytes: number;
  networkBytes: number;
}

export type ReadUsage = (
  ids: readonly InstanceId[],
  signal: AbortSignal,
  more: { rootDisk: boolean },
) => Promise<Map<InstanceId, Usage>>;

export function makeUsage(client: Client, installation: string, host: Host): ReadUsage {
  const { docker, call } = client;
  /** What the next mean is taken from. */
  const before = new Map<InstanceId, Reading>();
  const readings = makeGate(READINGS_AT_ONCE);
  const inspects = makeGate(INSPECTS_AT_ONCE);
  const disks = makeGate(DISKS_AT_ONCE);

  async function readOne(container: string, runSinceMs: number, signal: AbortSignal): Promise<Reading> {
    const oneShot = { stream: false as const, 'one-shot': true, abortSignal: signal };
    const answer = await readings(signal, () => call(signal, () => docker.getContainer(container).stats(oneShot)));
    const { read: at, cpu_stats: cpu, memory_stats: memory, networks } = statsAnswer.parse(answer);
    // The page cache that the kernel would give back at once is no use of the instance's; version 1 of cgroups calls it total_.
    const cache = memory?.stats?.['total_inactive_file'] ?? memory?.stats?.['inactive_file'] ?? 0;
    return {
      startedAtMs: runSinceMs,
      atMs: Date.parse(at),
      cpuNs: cpu.cpu_usage.total_usage,
      memoryBytes: Math.max(0, (memory?.usage ?? 0) - cache),
      networkBytes: Object.values(networks ?? {}).reduce((sum, one) => sum + one.rx_bytes + one.tx_bytes, 0),
    };
  }

  async function read(id: InstanceId, info: ContainerInspectInfo, signal: AbortSignal): Promise<Reading> {
    const own = await readOne(info.Id, startedAtMs(info.State), signal);
    // Under the instance's limits its Docker is counted with it. The network is one in any case.
    if (!hasDocker(info.Mounts) || (await host.facts(signal)).sharesLimits) return own;
    try {
      const beside = await readOne(dockerName(id), own.startedAtMs, signal);
      return { ...own, cpuNs: own.cpuNs + beside.cpuNs, memoryBytes: own.memoryBytes + beside.memoryBytes };
    } catch (error) {
      if (isContainerGone(error)) return own;
      throw error;
    }
  }

  /** Two readings of the same run, far enough apart. Null when it ended meanwhile: then the engine's date is of the year 1. */
  async function readTwo(
    id: InstanceId,
    info: ContainerInspectInfo,
    signal: AbortSignal,
  ): Promise<[since: Reading, now: Reading] | null> {
    let now = await read(id, info, signal);
    const last = before.get(id);
    const since = last?.startedAtMs === now.startedAtMs && last.atMs <= now.atMs ? last : now;
    const leftMs = SHORTEST_MS - (now.atMs - since.atMs);
    if (leftMs > 0 && now.atMs > 0) {
      await call(signal, (abortSignal) => sleep(leftMs, undefined, { signal: abortSignal }));
      now = await read(id, info, signal);
    }
    if (now.atMs <= since.atMs) return null;
    if (before.size > 100_000) before.clear();
    before.set(id, now);
    return [since, now];
  }

  /** Asked of the driver's own tool inside, as the engine counts no GPUs. */
  async function gpusIn(info: ContainerInspectInfo, signal: AbortSignal): Promise<Usage['gpus']> {
    if (gpusOf(info.Config.Labels).length === 0) return null;
    const command = ['nvidia-smi', '--query-gpu=utilization.gpu', '--format=csv,noheader,nounits'];
    const within = AbortSignal.any([signal, AbortSignal.timeout(GPU_DEADLINE_MS)]);
    const told = await runInside(client, info.Id, command, within).catch(() => null);
    if (told?.exitCode !== 0) return null;
    const percents = told.stdout.trim().split('\n').map(Number);
    return percents.every((percent) => percent >= 0 && percent <= 100)
      ? percents.map((busyPercent) => ({ busyPercent }))
      : null;
  }

  async function one(id: InstanceId, signal: AbortSignal, more: { rootDisk: boolean }): Promise<Usage | null> {
    const look = (): Promise<ContainerInspectInfo & { SizeRw?: number }> => {
      const request = { size: more.rootDisk, abortSignal: signal };
      return call(signal, () => docker.getContainer(containerName(id)).inspect(request));
    };
    const info = await (more.rootDisk ? disks : inspects)(signal, look);
    if (!isOurs(info.Config.Labels, installation, id)) return null;
    const rootDiskBytes = more.rootDisk ? (info.SizeRw ?? null) : null;
    const [two, gpus] = isRunning(info.State)
      ? await Promise.all([readTwo(id, info, signal), gpusIn(info, signal)])
      : [null, null];
    if (two === null) {
      const nothing = { cpuMilli: 0, cpuOverMs: 0, memoryBytes: 0, networkBytes: 0, gpus: null };
      return { ...nothing, atMs: Date.now(), rootDiskBytes };
    }
    const [since, { atMs, cpuNs, memoryBytes, networkBytes }] = two;
    const cpuOverMs = atMs - since.atMs;
    // Nanoseconds of CPU in a millisecond, as thousandths of a core.
    const cpuMilli = Math.max(0, Math.round((cpuNs - since.cpuNs) / 1000 / cpuOverMs));
    return { atMs, cpuMilli, cpuOverMs, memoryBytes, networkBytes, gpus, rootDiskBytes };
  }

  return async (ids, signal, more) => {
    const found = new Map<InstanceId, Usage>();
    const ask = async (id: InstanceId): Promise<void> => {
      try {
        const usage = await one(id, signal, more);
        if (usage !== null) found.set(id, usage);
      } catch (error) {
        if (isContainerGone(error)) return void before.delete(id);
        // One that can't be read says nothing of the others; an engine that is away does.
        if (!(error instanceof EngineFault) && !(error instanceof z.ZodError)) throw error;
        if (error instanceof EngineFault && error.kind === 'unreachable') throw error;
      }
    };
    await Promise.all(ids.map(ask));
    return found;
  };
}

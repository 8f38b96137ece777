/** What is asked of a running instance beside its ports: its console, a command, and what it uses. */
import { z } from 'zod';
import type { ContainerInspectInfo } from 'dockerode';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { ExecResult, Usage } from '../contract.ts';
import { containerName } from '../labels.ts';
import type { Client } from './client.ts';
import { faultOf, isContainerGone, statusOf } from './faults.ts';
import { isOurs, isRunning, startedAtMs } from './observation.ts';
import { makeDemultiplexer } from './streams.ts';
import { makeGate } from './turns.ts';

const EXEC_LIMIT_BYTES = 1024 * 1024;

export async function readLogs(
  client: Client,
  containerId: string,
  tail: number,
  signal: AbortSignal,
): Promise<string[]> {
  const wanted = Math.max(0, Math.floor(tail));
  if (wanted === 0) return [];
  const request = { follow: false as const, stdout: true, stderr: true, tail: wanted };
  const bytes = await client.call(signal, (abortSignal) =>
    client.docker.getContainer(containerId).logs({ ...request, abortSignal }),
  );
  const parts: Buffer[] = [];
  makeDemultiplexer((_source, part) => parts.push(part))(Buffer.from(bytes));
  const lines = Buffer.concat(parts).toString('utf8').split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines.slice(-wanted);
}

/** When the signal fires the answer is dropped; what was started goes on inside, the engine has no way to end it. */
export async function runInside(
  client: Client,
  containerId: string,
  command: readonly string[],
  signal: AbortSignal,
): Promise<ExecResult> {
  const streams = { stdout: new Bounded(EXEC_LIMIT_BYTES), stderr: new Bounded(EXEC_LIMIT_BYTES) };
  try {
    const request = { Cmd: [...command], AttachStdout: true, AttachStderr: true, Tty: false };
    const exec = await client.call(signal, (abortSignal) =>
      client.docker.getContainer(containerId).exec({ ...request, abortSignal }),
    );
    await client.call(signal, async (abortSignal) => {
      const output = await exec.start({ Detach: false, Tty: false, abortSignal });
      const take = makeDemultiplexer((source, bytes) => streams[source].add(bytes));
      for await (const chunk of output) take(Buffer.from(chunk));
    });
    const { ExitCode } = await client.call(signal, (abortSignal) => exec.inspect({ abortSignal }));
    return { exitCode: ExitCode ?? -1, stdout: streams.stdout.text(), stderr: streams.stderr.text() };
  } catch (error) {
    if (statusOf(error) === 409)
      throw new EngineFault('not_found', 'the instance does not run', { retry: false, cause: error });
    throw faultOf(error);
  }
}

class Bounded {
  readonly #parts: Buffer[] = [];
  #left: number;
  constructor(limit: number) {
    this.#left = limit;
  }
  add(bytes: Buffer): void {
    const part = bytes.subarray(0, this.#left);
    this.#left -= part.length;
    if (part.length > 0) this.#parts.push(Buffer.from(part)); // a copy: the chunk it was cut from is large
  }
  text(): string {
    return Buffer.concat(this.#parts).toString('utf8');
  }
}

const statsAnswer = z.object({
  read: z.string(),
  cpu_stats: z.object({ cpu_usage: z.object({ total_usage: z.number() }) }),
  memory_stats: z.object({ usage: z.number().optional(), stats: z.record(z.string(), z.number()).nullish() }).nullish(),
});

/**
 * CPU is the mean since the last time it was asked for the same run, and since its start the first time: so one reading
 * is enough, where the engine's own mean takes it a second.
 */
export function makeUsage(
  client: Client,
  installation: string,
): (ids: readonly InstanceId[], signal: AbortSignal) => Promise<Map<InstanceId, Usage>> {
  const { docker, call } = client;
  const before = new Map<InstanceId, { startedAtMs: number; atMs: number; cpuNs: number }>();
  /** The size of a root disk is counted file by file: few at once, or the host's disk has no time for anything else. */
  const gate = makeGate(2);

  async function one(id: InstanceId, signal: AbortSignal): Promise<Usage | null> {
    const withSize = { size: true, abortSignal: signal };
    const info: ContainerInspectInfo & { SizeRw?: number } = await call(signal, () =>
      docker.getContainer(containerName(id)).inspect(withSize),
    );
    if (!isOurs(info.Config.Labels, installation, id)) return null;
    const rootDiskBytes = info.SizeRw ?? 0;
    if (!isRunning(info.State)) return { cpuMilli: 0, memoryBytes: 0, rootDiskBytes };
    const oneShot = { stream: false as const, 'one-shot': true, abortSignal: signal };
    const stats = statsAnswer.safeParse(await call(signal, () => docker.getContainer(info.Id).stats(oneShot)));
    if (!stats.success) return { cpuMilli: 0, memoryBytes: 0, rootDiskBytes };
    const memory = stats.data.memory_stats;
    // The page cache that the kernel would give back at once is no use of the instance's; version 1 of cgroups calls it total_.
    const cache = memory?.stats?.['total_inactive_file'] ?? memory?.stats?.['inactive_file'] ?? 0;
    const now = {
      startedAtMs: startedAtMs(info.State),
      atMs: Date.parse(stats.data.read),
      cpuNs: stats.data.cpu_stats.cpu_usage.total_usage,
    };
    const last = before.get(id);
    before.set(id, now);
    const since =
      last?.startedAtMs === now.startedAtMs && now.atMs > last.atMs ? last : { atMs: now.startedAtMs, cpuNs: 0 };
    const elapsedMs = Math.max(1, now.atMs - since.atMs);
    const cpuMilli = Math.max(0, Math.round((now.cpuNs - since.cpuNs) / 1000 / elapsedMs));
    return { cpuMilli, memoryBytes: Math.max(0, (memory?.usage ?? 0) - cache), rootDiskBytes };
  }

  return async (ids, signal) => {
    const found = new Map<InstanceId, Usage>();
    await Promise.all(
      ids.map((id) =>
        gate(signal, async () => {
          try {
            const usage = await one(id, signal);
            if (usage !== null) found.set(id, usage);
          } catch (error) {
            if (!isContainerGone(error)) throw error;
            before.delete(id);
          }
        }),
      ),
    );
    return found;
  };
}

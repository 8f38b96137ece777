import type { ContainerInspectInfo } from 'dockerode';
import type { LogLine, LogRange, EngineLogSource } from '../../contract.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { openExec } from './exec.ts';
import { faultOf } from '../../../docker/faults.ts';
import {
  filterLines,
  lastOf,
  linesOf,
  openScriptLog,
  throwIfAborted,
  toCount,
  type ScriptSource,
} from '../../script-logs.ts';
import { makeFrameReader } from './log-frames.ts';

export interface OpenLogOptions {
  client: DockerClient;
  info: ContainerInspectInfo;
  source: EngineLogSource;
  range: LogRange;
  follow: boolean;
  signal: AbortSignal;
}

/** Applies `tail` here: the engine counts pieces of lines, and ignores `until`. */
export async function readLog(options: Omit<OpenLogOptions, 'follow'>): Promise<AsyncIterable<LogLine>> {
  const { tail } = options.range;
  const lines = throwIfAborted(await openLog({ ...options, follow: false }), { signal: options.signal, faultOf });
  return tail === undefined ? lines : lastOf(lines, toCount(tail));
}

export async function openLog(options: OpenLogOptions): Promise<AsyncIterable<LogLine>> {
  const { sinceMs = -Infinity, untilMs = Infinity } = options.range;
  const lines = await (options.source === 'console' ? openConsole(options) : openScript(options, options.source));
  return filterLines(lines, ({ atMs }) => atMs === null || (atMs >= sinceMs && atMs < untilMs));
}

async function openConsole({ client, info, range, follow, signal }: OpenLogOptions): Promise<AsyncIterable<LogLine>> {
  const { sinceMs, untilMs, tail } = range;
  const request = {
    stdout: true,
    stderr: true,
    timestamps: true,
    ...(sinceMs === undefined ? {} : { since: (sinceMs / 1000).toFixed(3) }),
    ...(untilMs === undefined ? {} : { until: (untilMs / 1000).toFixed(3) }),
    // Given `until`, the engine counts lines after it, too.
    ...(tail === undefined || untilMs !== undefined ? {} : { tail: toCount(tail) }),
  };
  const query = new URLSearchParams(
    Object.entries(request).map(([name, value]): [string, string] => [name, String(value)]),
  );
  const container = client.docker.getContainer(info.Id);
  const chunks = follow
    ? await client.call(signal, (abortSignal) => container.logs({ ...request, follow, abortSignal }))
    : await client.stream(`/containers/${info.Id}/logs?${query.toString()}`, signal);
  return linesOf(chunks, makeFrameReader(), { signal, faultOf });
}

const openScript = (
  { client, info, range, follow, signal }: OpenLogOptions,
  source: ScriptSource,
): Promise<AsyncIterable<LogLine>> =>
  openScriptLog({
    source,
    range,
    follow,
    signal,
    faultOf,
    open: (command, stopping) =>
      openExec({ client, info, request: { command, env: {}, terminal: null }, signal, stopping }),
  });

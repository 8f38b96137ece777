/**
 * Console of an instance. The cluster keeps the log of a Pod until the Pod is gone, and that of an
 * ended run as the previous one of its container.
 */
import type { InstanceId } from '../../../domain/ids.ts';
import { EngineFault } from '../../../domain/engine-fault.ts';
import { resources } from '../../../kubernetes/api-resources.ts';
import type { EngineLogSource, LogLine, LogRange } from '../../contract.ts';
import { makeTimedLineReader } from '../../log-lines.ts';
import { filterLines, lastOf, linesOf, openScriptLog, throwIfAborted, toCount } from '../../script-logs.ts';
import { ownPod, ownSet, type ClusterContext } from '../cluster-context.ts';
import { faultOf, withFaults } from '../cluster-faults.ts';
import { MAIN_CONTAINER, podName } from '../manifests/object-names.ts';
import { mainStatusOf } from '../state/pod-status.ts';
import { endOf, isRunning } from '../state/run-state.ts';
import { openCommand } from './pod-commands.ts';

export interface LogOptions {
  context: ClusterContext;
  id: InstanceId;
  source: EngineLogSource;
  range: LogRange;
  follow: boolean;
  signal: AbortSignal;
}

/** The server's `sinceTime` is in seconds. */
const secondsOf = (ms: number): string => new Date(Math.floor(ms / 1000) * 1000).toISOString().replace('.000Z', 'Z');
/** Output of a run that still arrives after its end. */
const DRAIN_MS = 1_500;

export async function readLog(options: Omit<LogOptions, 'follow'>): Promise<AsyncIterable<LogLine>> {
  const { range, signal } = options;
  const lines = throwIfAborted(await openLog({ ...options, follow: false }), { signal, faultOf });
  return range.tail === undefined ? lines : lastOf(lines, toCount(range.tail));
}

export async function openLog(options: LogOptions): Promise<AsyncIterable<LogLine>> {
  const { context, id, source, range, follow, signal } = options;
  const { sinceMs = -Infinity, untilMs = Infinity } = range;
  const lines =
    source === 'console'
      ? await withFaults(() => openConsole(options))
      : await openScriptLog({
          source,
          range,
          follow,
          signal,
          faultOf,
          open: (command, leaving) =>
            openCommand({ context, id, request: { command, env: {}, terminal: null }, signal, leaving }),
        });
  return filterLines(lines, ({ atMs }) => atMs === null || (atMs >= sinceMs && atMs < untilMs));
}

async function openConsole({ context, id, range, follow, signal }: LogOptions): Promise<AsyncIterable<LogLine>> {
  const { cluster, pods } = context;
  const { sinceMs, untilMs, tail } = range;
  const pod = await ownPod(context, id, signal);
  if (pod === null || (!isRunning(pod) && endOf(pod) === null)) {
    if (pod === null && (await ownSet(context, id, signal)) === null)
      throw new EngineFault('not_found', 'the instance does not exist', { retry: false });
    return noLines();
  }
  const hasEnded = !isRunning(pod);
  const query = {
    container: MAIN_CONTAINER,
    timestamps: true,
    follow,
    previous: (mainStatusOf(pod)?.restartCount ?? 0) > 0,
    ...(sinceMs === undefined ? {} : { sinceTime: secondsOf(sinceMs) }),
    // The server counts lines outside of the times, too.
    ...(tail === undefined || sinceMs !== undefined || untilMs !== undefined ? {} : { tailLines: toCount(tail) }),
  };
  const closing = new AbortController();
  const until = AbortSignal.any([signal, closing.signal]);
  const body = await cluster.stream(cluster.pathOf(resources.pods, podName(id), 'log'), until, query);
  if (follow && !hasEnded) {
    // The restarted container would be followed as well.
    const ended = pods.until(podName(id), (now) => (isRunning(now) ? undefined : true), until);
    ended.then(
      () => setTimeout(() => closing.abort(), DRAIN_MS).unref(),
      () => {},
    );
  }
  async function* read(): AsyncGenerator<LogLine> {
    try {
      yield* linesOf(body, makeTimedLineReader(), { signal: until, faultOf });
    } finally {
      closing.abort();
      body.destroy();
    }
  }
  return read();
}

async function* noLines(): AsyncGenerator<LogLine> {}

/**
 * Console of an instance. The cluster keeps the log of a Pod until the Pod is gone, and that of an
 * ended run as the previous one of its container. The StatefulSet keeps the last lines of a run
 * that ended by itself.
 */
import { buffer } from 'node:stream/consumers';
import type { InstanceId } from '../../../domain/kernel/ids.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { Pod } from '../../../kubernetes/api-objects.ts';
import { resources } from '../../../kubernetes/api-resources.ts';
import type { EngineLogSource, LogLine, LogRange } from '../../contract.ts';
import { LINE_LIMIT_BYTES, makeTimedLineReader } from '../../log-lines.ts';
import { filterLines, lastOf, linesOf, openScriptLog, throwIfAborted, toCount } from '../../script-logs.ts';
import { ownPod, ownSet, type ClusterContext } from '../cluster-context.ts';
import { faultOf, withFaults } from '../cluster-faults.ts';
import { annotations, MAIN_CONTAINER, podName } from '../manifests/object-names.ts';
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
/** Annotations of an object have 256 KiB at most, and lists carry them. */
const LAST_CONSOLE_BYTES = 16 * 1024;
const LAST_CONSOLE_LINES = 200;
const LAST_CONSOLE_MS = 5_000;

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
  if (pod === null) {
    const set = await ownSet(context, id, signal);
    if (set === null) throw new EngineFault('not_found', 'the instance does not exist', { retry: false });
    return linesIn(set.metadata?.annotations?.[annotations.lastConsole] ?? '');
  }
  if (!isRunning(pod) && endOf(pod) === null) return linesIn('');
  const hasEnded = !isRunning(pod);
  const query = {
    ...ofRun(pod),
    follow,
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

/** A restarted container has a log of its own. */
const ofRun = (pod: Pod) => ({
  container: MAIN_CONTAINER,
  timestamps: true,
  previous: (mainStatusOf(pod)?.restartCount ?? 0) > 0,
});

async function* linesIn(text: string): AsyncGenerator<LogLine> {
  const reader = makeTimedLineReader();
  yield* reader.push(Buffer.from(text));
  yield* reader.rest();
}

/** Returns the last lines of the ended run of a Pod; null if its node does not give them. */
export async function lastConsole(
  { cluster, log }: ClusterContext,
  pod: Pod,
  signal: AbortSignal,
): Promise<string | null> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(LAST_CONSOLE_MS)]);
  try {
    const path = cluster.pathOf(resources.pods, pod.metadata?.name ?? '', 'log');
    const query = { ...ofRun(pod), tailLines: LAST_CONSOLE_LINES, limitBytes: LAST_CONSOLE_LINES * LINE_LIMIT_BYTES };
    const all = await buffer(await cluster.stream(path, until, query));
    if (all.length <= LAST_CONSOLE_BYTES) return all.toString();
    const last = all.subarray(-LAST_CONSOLE_BYTES);
    return last.subarray(last.indexOf('\n') + 1).toString();
  } catch (error) {
    signal.throwIfAborted();
    log.debug({ pod: pod.metadata?.name, err: error }, 'could not keep the console of an ended run');
    return null;
  }
}

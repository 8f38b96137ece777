import type { ContainerInspectInfo } from 'dockerode';
import { onAbort } from '../../../async/abort.ts';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { LogLine, LogRange, EngineLogSource } from '../../contract.ts';
import type { DockerClient } from '../client/docker-client.ts';
import { openExec } from './exec.ts';
import { faultOf } from '../client/faults.ts';
import { makeFrameReader, makeLineReader, type LineReader } from './log-lines.ts';

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
  const lines = throwIfAborted(await openLog({ ...options, follow: false }), options.signal);
  return tail === undefined ? lines : lastOf(lines, toCount(tail));
}

/** Throws at the end of an aborted log, which is incomplete. */
async function* throwIfAborted(lines: AsyncIterable<LogLine>, signal: AbortSignal): AsyncGenerator<LogLine> {
  yield* lines;
  if (signal.aborted) throw faultOf(signal.reason);
}

async function* lastOf(lines: AsyncIterable<LogLine>, count: number): AsyncGenerator<LogLine> {
  const last: LogLine[] = [];
  for await (const line of lines) if (last.push(line) > 2 * count) last.splice(0, last.length - count);
  yield* last.slice(Math.max(0, last.length - count));
}

export async function openLog(options: OpenLogOptions): Promise<AsyncIterable<LogLine>> {
  const { sinceMs = -Infinity, untilMs = Infinity } = options.range;
  const lines = await (options.source === 'console'
    ? openConsole(options)
    : openScriptLog(options, scriptFiles[options.source]));
  return filter(lines, ({ atMs }) => atMs === null || (atMs >= sinceMs && atMs < untilMs));
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
  return linesOf(chunks, makeFrameReader(), signal);
}

/** Above the log's own 10 MiB; root inside may have put any file in its place. */
export const MAX_SCRIPT_LOG_BYTES = 11 * 1024 * 1024;

/**
 * Arguments: number of lines; `once`, or `follow` (until two seconds after the script's end, as
 * some `tail`s poll once a second); names of log and script. `once` exits with 1 while the script
 * runs.
 */
const READ_SCRIPT_LOG = `
log=/var/log/berth/$3.log
if [ "$2" != follow ]; then
  [ -e /var/log/berth/$3.exit ]
  code=$?
  [ ! -e "$log" ] || head -c ${MAX_SCRIPT_LOG_BYTES} "$log" | tail -n "$1"
  exit $code
fi
[ -e "$log" ] || [ -s "/etc/berth/$4" ] || exit 0
tail -n "$1" -F "$log" 2>/dev/null &
while [ ! -e /var/log/berth/$3.exit ]; do sleep 1; done
sleep 2
kill $!`;

const scriptFiles = { init: 'init-script', start: 'start-command' } as const;

async function openScriptLog(
  { client, info, source, range, follow, signal }: OpenLogOptions,
  script: string,
): Promise<AsyncIterable<LogLine>> {
  const { tail } = range;
  const lines = tail === undefined ? '+1' : String(toCount(tail));
  const command = ['/bin/sh', '-c', READ_SCRIPT_LOG, 'sh', lines, follow ? 'follow' : 'once', source, script];
  const request = { command, env: {}, terminal: null };
  const stopping = new AbortController();
  const exec = await openExec({ client, info, request, signal, stopping: stopping.signal });
  exec.stderr.resume();
  const leave = (): void => {
    exec.stdout.destroy();
    void exec
      .kill()
      .catch(() => {})
      .then(() => stopping.abort());
  };
  const unsubscribe = onAbort(signal, leave);
  async function* read(): AsyncGenerator<LogLine> {
    try {
      const lines = makeLineReader();
      let remaining = MAX_SCRIPT_LOG_BYTES;
      async function* bounded(): AsyncGenerator<Buffer> {
        for await (const chunk of exec.stdout) {
          const bytes = Buffer.from(chunk).subarray(0, remaining);
          remaining -= bytes.length;
          yield bytes;
          if (remaining === 0) return;
        }
      }
      yield* linesOf(bounded(), { ...lines, rest: () => [] }, signal);
      const code = signal.aborted || remaining === 0 ? null : await exec.exited.catch(unlessEnded);
      if (follow || remaining === 0 || code === 0) yield* lines.rest();
    } finally {
      unsubscribe();
      if (!signal.aborted) leave();
    }
  }
  return read();
}

/** The end of the instance ends the log. */
function unlessEnded(fault: unknown): null {
  if (fault instanceof EngineFault && fault.kind === 'not_found') return null;
  throw fault;
}

const toCount = (tail: number): number => Math.max(0, Math.floor(tail));

async function* filter(lines: AsyncIterable<LogLine>, matches: (line: LogLine) => boolean): AsyncGenerator<LogLine> {
  for await (const line of lines) if (matches(line)) yield line;
}

async function* linesOf(
  chunks: AsyncIterable<Buffer | string> | Iterable<Buffer>,
  reader: LineReader,
  signal: AbortSignal,
): AsyncGenerator<LogLine> {
  try {
    for await (const chunk of chunks) yield* reader.push(Buffer.from(chunk));
    yield* reader.rest();
  } catch (error) {
    if (!signal.aborted) throw faultOf(error);
  }
}

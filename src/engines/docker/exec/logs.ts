/** The logs of an instance: its console from the engine's own file, its init script's by a command inside. */
import type { ContainerInspectInfo } from 'dockerode';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { LogLine, LogRange, LogSource } from '../../contract.ts';
import type { Client } from '../client/client.ts';
import { openInside } from './exec.ts';
import { faultOf } from '../client/faults.ts';
import { makeFrameReader, makeLineReader, type ReadLines } from './log-lines.ts';

export interface Asked {
  client: Client;
  info: ContainerInspectInfo;
  source: LogSource;
  range: LogRange;
  follow: boolean;
  signal: AbortSignal;
}

/** Of what the engine gives the last are taken here, as it counts pieces of lines and knows of no end. */
export async function readLog(asked: Omit<Asked, 'follow'>): Promise<AsyncIterable<LogLine>> {
  const { tail } = asked.range;
  const lines = whole(await openLog({ ...asked, follow: false }), asked.signal);
  return tail === undefined ? lines : lastOf(lines, wholeOf(tail));
}

/** What was cut short by the signal must not look as if it were all. */
async function* whole(lines: AsyncIterable<LogLine>, signal: AbortSignal): AsyncGenerator<LogLine> {
  yield* lines;
  if (signal.aborted) throw faultOf(signal.reason);
}

async function* lastOf(lines: AsyncIterable<LogLine>, count: number): AsyncGenerator<LogLine> {
  const last: LogLine[] = [];
  for await (const line of lines) if (last.push(line) > 2 * count) last.splice(0, last.length - count);
  yield* last.slice(Math.max(0, last.length - count));
}

export async function openLog(asked: Asked): Promise<AsyncIterable<LogLine>> {
  const { sinceMs = -Infinity, untilMs = Infinity } = asked.range;
  const lines = await (asked.source === 'console' ? openConsole(asked) : openInit(asked));
  return within(lines, ({ atMs }) => atMs === null || (atMs >= sinceMs && atMs < untilMs));
}

async function openConsole({ client, info, range, follow, signal }: Asked): Promise<AsyncIterable<LogLine>> {
  const { sinceMs, untilMs, tail } = range;
  const request = {
    stdout: true,
    stderr: true,
    timestamps: true,
    ...(sinceMs === undefined ? {} : { since: (sinceMs / 1000).toFixed(3) }),
    ...(untilMs === undefined ? {} : { until: (untilMs / 1000).toFixed(3) }),
    // Of what is before an end the engine can't give the last lines.
    ...(tail === undefined || untilMs !== undefined ? {} : { tail: wholeOf(tail) }),
  };
  const container = client.docker.getContainer(info.Id);
  const chunks = follow
    ? await client.call(signal, (abortSignal) => container.logs({ ...request, follow, abortSignal }))
    : await client.stream(`/containers/${info.Id}/logs?${queryOf(request)}`, signal);
  return linesOf(chunks, makeFrameReader(), signal);
}

const queryOf = (request: Record<string, unknown>): string =>
  new URLSearchParams(
    Object.entries(request).map(([name, value]): [string, string] => [name, String(value)]),
  ).toString();

/** Of the init script's log: more than the 10 MiB that it is held to, as whoever is root inside may have put anything in its place. */
export const MOST_INIT_BYTES = 11 * 1024 * 1024;

/**
 * How many lines, and whether to follow: until the script has ended and a moment has passed, as the tail of some looks once a second.
 * Without following it ends with 1 when the script had not ended before. An instance whose script has not begun to write yet has no such file; one without a script never will.
 */
const READ_INIT = `
log=/var/log/berth/init.log
if [ "$2" != follow ]; then
  [ -e /var/log/berth/init.exit ]
  code=$?
  [ ! -e "$log" ] || head -c ${MOST_INIT_BYTES} "$log" | tail -n "$1"
  exit $code
fi
[ -e "$log" ] || [ -s /etc/berth/init-script ] || exit 0
tail -n "$1" -F "$log" 2>/dev/null &
while [ ! -e /var/log/berth/init.exit ]; do sleep 1; done
sleep 2
kill $!`;

async function openInit({ client, info, range: { tail }, follow, signal }: Asked): Promise<AsyncIterable<LogLine>> {
  const lines = tail === undefined ? '+1' : String(wholeOf(tail));
  const command = ['/bin/sh', '-c', READ_INIT, 'sh', lines, follow ? 'follow' : 'once'];
  const wish = { command, env: {}, terminal: null };
  const stopping = new AbortController();
  const reading = await openInside({ client, info, wish, signal, stopping: stopping.signal });
  reading.stderr.resume();
  const leave = (): void => {
    reading.stdout.destroy();
    reading.kill().then(
      () => stopping.abort(),
      () => stopping.abort(),
    );
  };
  signal.addEventListener('abort', leave, { once: true });
  async function* read(): AsyncGenerator<LogLine> {
    try {
      const lines = makeLineReader();
      let left = MOST_INIT_BYTES;
      async function* bounded(): AsyncGenerator<Buffer> {
        for await (const chunk of reading.stdout) {
          const bytes = Buffer.from(chunk).subarray(0, left);
          left -= bytes.length;
          yield bytes;
          if (left === 0) return;
        }
      }
      yield* linesOf(bounded(), { ...lines, rest: () => [] }, signal);
      const code = signal.aborted || left === 0 ? null : await reading.exited.catch(unlessEnded);
      if (follow || left === 0 || code === 0) yield* lines.rest();
    } finally {
      signal.removeEventListener('abort', leave);
      if (!signal.aborted) leave();
    }
  }
  return read();
}

/** With the instance its log has ended. */
function unlessEnded(fault: unknown): null {
  if (fault instanceof EngineFault && fault.kind === 'not_found') return null;
  throw fault;
}

const wholeOf = (tail: number): number => Math.max(0, Math.floor(tail));

async function* within(lines: AsyncIterable<LogLine>, wanted: (line: LogLine) => boolean): AsyncGenerator<LogLine> {
  for await (const line of lines) if (wanted(line)) yield line;
}

async function* linesOf(
  chunks: AsyncIterable<Buffer | string> | Iterable<Buffer>,
  reader: ReadLines,
  signal: AbortSignal,
): AsyncGenerator<LogLine> {
  try {
    for await (const chunk of chunks) yield* reader.take(Buffer.from(chunk));
    yield* reader.rest();
  } catch (error) {
    if (!signal.aborted) throw faultOf(error);
  }
}

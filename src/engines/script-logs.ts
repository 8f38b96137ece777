/** Logs inside an instance, read by a command; and what all logs share. */
import { EngineFault } from '../domain/regions/engine-fault.ts';
import { onAbort } from '../async/abort.ts';
import type { EngineLogSource, LogLine, LogRange, OpenExec } from './contract.ts';
import { makeLineReader, type LineReader } from './log-lines.ts';

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

export type ScriptSource = Exclude<EngineLogSource, 'console'>;

const scriptFiles: Readonly<Record<ScriptSource, string>> = {
  init: 'init-script',
  start: 'start-command',
  // Never empty. The log ends with the instance.
  notebook: 'notebook-token',
};

export interface ScriptLogOptions {
  source: ScriptSource;
  range: LogRange;
  follow: boolean;
  signal: AbortSignal;
  faultOf: (error: unknown) => EngineFault;
  /** `stopping` closes the connection of the open command. */
  open: (command: readonly string[], stopping: AbortSignal) => Promise<OpenExec>;
}

export async function openScriptLog({
  source,
  range,
  follow,
  signal,
  faultOf,
  open,
}: ScriptLogOptions): Promise<AsyncIterable<LogLine>> {
  const { tail } = range;
  const lines = tail === undefined ? '+1' : String(toCount(tail));
  const command = [
    '/bin/sh',
    '-c',
    READ_SCRIPT_LOG,
    'sh',
    lines,
    follow ? 'follow' : 'once',
    source,
    scriptFiles[source],
  ];
  const stopping = new AbortController();
  const exec = await open(command, stopping.signal);
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
      yield* linesOf(bounded(), { ...lines, rest: () => [] }, { signal, faultOf });
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

/** Throws at the end of an aborted log, which is incomplete. */
export async function* throwIfAborted(
  lines: AsyncIterable<LogLine>,
  { signal, faultOf }: Pick<ScriptLogOptions, 'signal' | 'faultOf'>,
): AsyncGenerator<LogLine> {
  yield* lines;
  if (signal.aborted) throw faultOf(signal.reason);
}

export async function* lastOf(lines: AsyncIterable<LogLine>, count: number): AsyncGenerator<LogLine> {
  const last: LogLine[] = [];
  for await (const line of lines) if (last.push(line) > 2 * count) last.splice(0, last.length - count);
  yield* last.slice(Math.max(0, last.length - count));
}

export const toCount = (tail: number): number => Math.max(0, Math.floor(tail));

export async function* filterLines(
  lines: AsyncIterable<LogLine>,
  matches: (line: LogLine) => boolean,
): AsyncGenerator<LogLine> {
  for await (const line of lines) if (matches(line)) yield line;
}

export async function* linesOf(
  chunks: AsyncIterable<Buffer | string> | Iterable<Buffer>,
  reader: LineReader,
  { signal, faultOf }: Pick<ScriptLogOptions, 'signal' | 'faultOf'>,
): AsyncGenerator<LogLine> {
  try {
    for await (const chunk of chunks) yield* reader.push(Buffer.from(chunk));
    yield* reader.rest();
  } catch (error) {
    if (!signal.aborted) throw faultOf(error);
  }
}

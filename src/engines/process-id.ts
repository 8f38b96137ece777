/**
 * Process id of a command inside, where the engine's own ids mean nothing here: a shell starts the
 * command and first writes its id, which stays that of the command.
 */
import type { Readable } from 'node:stream';
import type { ExecRequest } from './contract.ts';

const [START, END] = [0x01, 0x02];
/** Longest output before the id, such as a warning of the shell. */
const MAX_BYTES = 4_096;

const startOf = (leader: 'shell' | 'parent', channel = '>&2'): string =>
  `printf '\\001%s\\002' ${leader === 'parent' ? '$PPID' : '$$'} ${channel};`;

/**
 * Command that writes the id of its process group to its stderr, or its terminal. The shell reads
 * no names and values: it would drop a variable with a name that it could not have. `leader`: of
 * the group, the shell itself, or its parent where another shell holds a command without terminal.
 */
export function withProcessId({ command, env, terminal }: ExecRequest, leader: 'shell' | 'parent' = 'shell'): string[] {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const script = `${terminal === null ? startOf(leader) : startOf('shell', '')} exec "$@"`;
  return ['/bin/sh', '-c', script, 'sh', ...(variables.length === 0 ? [] : ['env', ...variables]), ...command];
}

/**
 * Command like that of `withProcessId`, for one with input, which first gets `environmentInput`:
 * words of a command are in the URL of a cluster's API, and so in the logs of its server.
 */
export function withEnvironmentInput(command: readonly string[], leader: 'shell' | 'parent'): string[] {
  return ['/bin/sh', '-c', startOf(leader) + READ_ENVIRONMENT, 'sh', ...command];
}

/**
 * Reads `NAME=value` words up to an empty line, and puts `env` and them before the command. Its own
 * names are unlikely ones: the image may have exported others.
 */
const READ_ENVIRONMENT = `
berth_count=$#
set -- "$@" env
while IFS= read -r berth_word && [ "$berth_word" ]; do
  case $berth_word in *\\\\*) berth_word=$(printf '%b.' "$berth_word") berth_word=\${berth_word%.} ;; esac
  set -- "$@" "$berth_word"
done
while [ "$berth_count" -gt 0 ]; do
  berth_word=$1
  shift
  set -- "$@" "$berth_word"
  berth_count=$((berth_count - 1))
done
exec "$@"`;

/** A line for each variable, escaped for `printf %b`. */
export function environmentInput(env: ExecRequest['env']): string {
  const words = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const lines = words.map((word) => word.replaceAll('\\', '\\\\').replaceAll('\n', '\\n'));
  return `${[...lines, ''].join('\n')}\n`;
}

/** Takes the process id off the start of the stream; null: the stream has none. */
export function readProcessId(stream: Readable): Promise<number | null> {
  return new Promise((resolve) => {
    let seen = Buffer.alloc(0);
    const finish = (id: number | null, rest: Buffer): void => {
      stream.off('readable', read).off('end', give).off('close', give);
      // A stream that has ended takes nothing back.
      if (rest.length > 0 && !stream.destroyed && !stream.readableEnded) stream.unshift(rest);
      resolve(id);
    };
    const give = (): void => finish(null, seen);
    const read = (): void => {
      for (let chunk: unknown = stream.read(); Buffer.isBuffer(chunk); chunk = stream.read()) {
        seen = Buffer.concat([seen, chunk]);
        const start = seen.indexOf(START);
        const end = seen.indexOf(END);
        if (start >= 0 && end > start) {
          const id = Number(seen.toString('latin1', start + 1, end));
          return finish(
            Number.isInteger(id) ? id : null,
            Buffer.concat([seen.subarray(0, start), seen.subarray(end + 1)]),
          );
        }
        if (seen.length > MAX_BYTES) return give();
      }
    };
    stream.on('readable', read).on('end', give).on('close', give);
    read();
  });
}

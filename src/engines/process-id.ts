/**
 * Process id of a command inside, where the engine's own ids mean nothing here: a shell starts the
 * command and first writes its id, which stays that of the command.
 */
import type { Readable } from 'node:stream';
import type { ExecRequest } from './contract.ts';

const [START, END] = [0x01, 0x02];
/** Longest output before the id, such as a warning of the shell. */
const MAX_BYTES = 4_096;

/**
 * Command that writes the id of its process group to its stderr, or its terminal. The shell reads
 * no names and values: it would drop a variable with a name that it could not have. `leader`: of
 * the group, the shell itself, or its parent where another shell holds a command without terminal.
 */
export function withProcessId({ command, env, terminal }: ExecRequest, leader: 'shell' | 'parent' = 'shell'): string[] {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const [id, channel] = terminal === null ? [leader === 'parent' ? '$PPID' : '$$', '>&2'] : ['$$', ''];
  const script = `printf '\\001%s\\002' ${id} ${channel}; exec "$@"`;
  return ['/bin/sh', '-c', script, 'sh', ...(variables.length === 0 ? [] : ['env', ...variables]), ...command];
}

/** Takes the process id off the start of the stream; null: the stream has none. */
export function readProcessId(stream: Readable): Promise<number | null> {
  return new Promise((resolve) => {
    let seen = Buffer.alloc(0);
    const finish = (id: number | null, rest: Buffer): void => {
      stream.off('readable', read).off('end', give).off('close', give);
      if (rest.length > 0 && !stream.destroyed) stream.unshift(rest);
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

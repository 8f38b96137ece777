import type { Readable } from 'node:stream';

const [START, END] = [0x01, 0x02];
/** Longest output before the id, such as a warning of the shell. */
const MAX_BYTES = 4_096;

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

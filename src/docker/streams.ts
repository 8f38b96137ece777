/** Docker's stream formats: JSON lines (pulls, events), and frames of two outputs (logs, exec). */
import { Writable, type Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

/** Non-empty lines without line ends. Throws when the stream breaks. */
export async function* linesOf(stream: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + (typeof chunk === 'string' ? chunk : decoder.write(chunk))).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) if (line.trim() !== '') yield line;
  }
  if (rest.trim() !== '') yield rest;
}

const HEADER_BYTES = 8;

/** Parses chunks split anywhere; payloads arrive in parts, and `ends` marks the last of a frame. */
export function makeDemultiplexer(
  onPayload: (source: 'stdout' | 'stderr', bytes: Buffer, ends: boolean) => void,
): (chunk: Buffer) => void {
  let header = Buffer.alloc(0);
  let source: 'stdout' | 'stderr' = 'stdout';
  let remaining = 0;
  return (chunk) => {
    let rest = chunk;
    while (rest.length > 0) {
      if (remaining > 0) {
        const part = rest.subarray(0, remaining);
        remaining -= part.length;
        rest = rest.subarray(part.length);
        onPayload(source, part, remaining === 0);
        continue;
      }
      const need = HEADER_BYTES - header.length;
      header = Buffer.concat([header, rest.subarray(0, need)]);
      rest = rest.subarray(need);
      if (header.length < HEADER_BYTES) return;
      source = header[0] === 2 ? 'stderr' : 'stdout';
      remaining = header.readUInt32BE(4);
      header = Buffer.alloc(0);
    }
  };
}

/**
 * Input of a command over its connection, without errors: a command that has ended reads nothing.
 *
 * - Node destroys a socket whose `write` failed, with output that it has not read. `_write` reports
 *   the failure alone.
 * - Node's TLS discards received output when a socket is ended within a read callback: the shutdown
 *   takes the next decrypted record as a failure of the protocol. So the end waits for the callback
 *   to return. Without `ends` it is not forwarded.
 */
export const inputOf = (socket: Duplex, { ends }: { ends: boolean }): Writable =>
  new Writable({
    write: (chunk: Buffer, encoding, done) => socket._write(chunk, encoding, done),
    final: (done) => void (ends ? setImmediate(() => socket.end(done)) : done()),
  }).on('error', () => {});

/** Docker's stream formats: JSON lines (pulls, events), and frames of two outputs (logs, exec). */
import type { Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { EngineFault } from '../domain/engine-fault.ts';

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

const QUIET_MS = 500;
const HALF_CLOSE_MS = 100;

/**
 * # The end of input over TLS
 *
 * Output that arrives while the input ends can be lost, with the end of the stream (2 of 100 short
 * commands with Docker 20.10; none of 200 without an end). So commands without input have none, the
 * end of an input waits a moment for a command that ends by itself, and a command that has ended
 * while its stream goes on in silence is a fault instead of output that may be incomplete.
 */
export function endInput(socket: Duplex, done: () => void): void {
  setTimeout(() => {
    if (socket.destroyed || socket.readableEnded) done();
    else socket.end(done);
  }, HALF_CLOSE_MS);
}

/** Chunks of a command's connection. Throws `unreachable` when its end was lost. */
export async function* chunksOf(
  socket: Duplex,
  hasEnded: () => Promise<boolean>,
): AsyncGenerator<Buffer, void, undefined> {
  let isWaiting = true;
  let received = 0;
  let isOver = false;
  let seen = -1;
  const check = async (): Promise<void> => {
    const isQuiet = isWaiting && received === seen && socket.readableLength === 0;
    seen = received;
    if (!isQuiet || !(await hasEnded()) || received !== seen) return;
    isOver = true;
    socket.destroy();
  };
  const timer = setInterval(() => void check().catch(() => {}), QUIET_MS);
  try {
    for await (const chunk of socket) {
      received += 1;
      isWaiting = false;
      yield chunk;
      isWaiting = true;
    }
  } catch (error) {
    if (!isOver) throw error;
    const text = 'the engine no longer sends the output of a command, which may be incomplete';
    throw new EngineFault('unreachable', text, { retry: true, cause: error });
  } finally {
    clearInterval(timer);
  }
}

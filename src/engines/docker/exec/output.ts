/** Output of a command, which waits for slow readers (`exec.ts`). */
import { Readable, type Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeDemultiplexer } from '../../../docker/streams.ts';

const BUFFER_BYTES = 16 * 1024;
/** Interval of polls for the end of a blocked command; Docker drops output after two seconds. */
const BLOCKED_POLL_MS = 600;
/** An engine that holds the output of an ended command answers about it once that is dropped. */
const SILENT_MS = 400;
const REST_BYTES = 3 * 1024 * 1024;

export class Output extends Readable {
  #isFull = false;

  constructor() {
    super({ highWaterMark: BUFFER_BYTES });
  }

  /** False once destroyed: output is then discarded. */
  get isFull(): boolean {
    return this.#isFull && !this.destroyed;
  }

  put(bytes: Buffer): void {
    if (!this.destroyed) this.#isFull = !this.push(bytes);
  }

  finish(): void {
    if (!this.destroyed) this.push(null);
  }

  drainedOrTimeout(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.off('drained', done).off('close', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.on('drained', done).on('close', done);
    });
  }

  override _read(): void {
    if (!this.#isFull) return;
    this.#isFull = false;
    this.emit('drained');
  }
}

export async function pump(
  socket: Duplex,
  streams: { stdout: Output; stderr: Output },
  { framed, hasEnded }: { framed: boolean; hasEnded: () => Promise<boolean> },
): Promise<void> {
  const put = (source: 'stdout' | 'stderr', bytes: Buffer): void => {
    streams[source].put(isSmallPart(bytes) ? copyOf(bytes) : bytes);
  };
  const take = framed ? makeDemultiplexer(put) : (bytes: Buffer) => put('stdout', bytes);
  let unwaited = 0;
  let question: Promise<boolean> | null = null;
  for await (const chunk of socket) {
    take(chunk);
    unwaited -= chunk.length;
    for (const stream of [streams.stdout, streams.stderr]) {
      while (unwaited <= 0 && stream.isFull) {
        await stream.drainedOrTimeout(BLOCKED_POLL_MS);
        if (!stream.isFull) continue;
        const isNew = question === null;
        question ??= hasEnded();
        const ended = await Promise.race([question, ...(isNew ? [sleep(SILENT_MS, null)] : [])]);
        if (ended === null) unwaited = REST_BYTES;
        else question = null;
        if (ended === true) unwaited = Infinity;
      }
    }
  }
}

const isSmallPart = (bytes: Buffer): boolean => bytes.length < bytes.buffer.byteLength / 4;

/** Copies outside of Node's pool, of which each slice retains 8 KiB. */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

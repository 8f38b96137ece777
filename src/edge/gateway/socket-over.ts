/**
 * undici wants a `net.Socket`; engines hand out any `Duplex`, such as one end of a pair in memory or a stream through an API.
 * This is a socket without a handle, whose reads and writes go to the stream.
 */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';

export function socketOver(stream: Duplex): Socket {
  const socket = stream instanceof Socket ? stream : new SocketOver(stream);
  socket.on('error', asError);
  return socket;
}

/**
 * undici takes a reset for the end of a body that only the connection ends, and so a part for the whole. It knows one by its code, and hears
 * of it after this.
 */
function asError(error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET') error.code = 'ERR_RESET_BY_INSTANCE';
}

class SocketOver extends Socket {
  readonly #stream: Duplex;

  constructor(stream: Duplex) {
    super({ allowHalfOpen: true });
    this.#stream = stream;
    stream.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) stream.pause();
    });
    stream.on('end', () => this.push(null));
    stream.on('error', (error) => this.destroy(error));
    stream.on('close', () => {
      // The end may still wait in our buffer behind what was read before it.
      if (!stream.readableEnded) this.destroy(new Error('the connection broke off'));
    });
    stream.pause();
  }

  override _read(): void {
    this.#stream.resume();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#stream.write(chunk, encoding, done);
  }

  override _writev(chunks: { chunk: Buffer; encoding: BufferEncoding }[], done: (error?: Error | null) => void): void {
    this.#stream.cork();
    const last = chunks.length - 1;
    for (const [index, { chunk, encoding }] of chunks.entries()) {
      this.#stream.write(chunk, encoding, index === last ? done : undefined);
    }
    this.#stream.uncork();
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#stream.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#stream.destroy(error ?? undefined);
    done(error);
    // A net.Socket says so itself, from the part that this method replaces.
    process.nextTick(() => this.emit('close', error !== null));
  }
}

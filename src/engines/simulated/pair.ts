/**
 * An in-memory duplex pair with backpressure and half-close. Destroying one end ends the other's
 * input and gives EPIPE to its writes, as TCP does. Data arrives in a later turn of the event loop.
 */
import { Duplex } from 'node:stream';

type Done = (error?: Error | null) => void;

class End extends Duplex {
  peer: End | undefined;
  pendingWrite: Done | undefined;
  #ended = false;

  constructor() {
    super({ allowHalfOpen: true });
  }

  accept(chunk: Buffer, done: Done): void {
    if (this.destroyed) done(brokenPipe());
    else if (this.push(chunk)) done();
    else this.pendingWrite = done;
  }

  finish(): void {
    if (this.#ended || this.destroyed) return;
    this.#ended = true;
    this.push(null);
  }

  #release(error?: Error): void {
    const done = this.pendingWrite;
    this.pendingWrite = undefined;
    done?.(error);
  }

  override _read(): void {
    this.#release();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    // The writer may reuse its buffer.
    const sent = Buffer.from(chunk);
    setImmediate(() => this.peer?.accept(sent, done));
  }

  override _final(done: Done): void {
    setImmediate(() => this.peer?.finish());
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#release(brokenPipe());
    setImmediate(() => this.peer?.finish());
    done(error);
  }
}

const brokenPipe = (): Error =>
  Object.assign(new Error('the other end is closed'), { code: 'EPIPE', syscall: 'write' });

export function makePair(): [Duplex, Duplex] {
  const [one, other] = [new End(), new End()];
  one.peer = other;
  other.peer = one;
  return [one, other];
}

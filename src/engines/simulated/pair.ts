/**
 * A connection without a network: what goes in at one end comes out at the other, with back-pressure and half-close, and an end
 * that is destroyed is an end of data to the other and EPIPE to what it still writes, as with TCP. Nothing arrives in the turn of the
 * event loop in which it was sent: programs that were never tried against a faster echo would miss it.
 */
import { Duplex } from 'node:stream';

type Done = (error?: Error | null) => void;

class End extends Duplex {
  peer: End | undefined;
  /** The peer's write, held until this end has been read. */
  held: Done | undefined;
  #ended = false;

  constructor() {
    super({ allowHalfOpen: true });
  }

  accept(chunk: Buffer, done: Done): void {
    if (this.destroyed) done(brokenPipe());
    else if (this.push(chunk)) done();
    else this.held = done;
  }

  finish(): void {
    if (this.#ended || this.destroyed) return;
    this.#ended = true;
    this.push(null);
  }

  #release(error?: Error): void {
    const done = this.held;
    this.held = undefined;
    done?.(error);
  }

  override _read(): void {
    this.#release();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    // A copy: the writer may use its buffer again.
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

import { Readable } from 'node:stream';

const BUFFER_BYTES = 16 * 1024;

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

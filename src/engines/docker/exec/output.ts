/** What a command writes, for somebody to read: held is one piece and what makes it full, so that who fills it waits for room. */
import { Readable } from 'node:stream';

const HELD_BYTES = 16 * 1024;

export class Output extends Readable {
  #isFull = false;

  constructor() {
    super({ highWaterMark: HELD_BYTES });
  }

  /** One that nobody wants is never full. */
  get isFull(): boolean {
    return this.#isFull && !this.destroyed;
  }

  put(bytes: Buffer): void {
    if (!this.destroyed) this.#isFull = !this.push(bytes);
  }

  finish(): void {
    if (!this.destroyed) this.push(null);
  }

  /** Resolves when there is room, nobody wants it any more, or after so long. */
  roomOrTime(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.off('room', done).off('close', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.on('room', done).on('close', done);
    });
  }

  override _read(): void {
    if (!this.#isFull) return;
    this.#isFull = false;
    this.emit('room');
  }
}

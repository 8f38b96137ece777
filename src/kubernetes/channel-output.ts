import { Readable } from 'node:stream';

const BUFFER_BYTES = 64 * 1024;

/** Output of one channel. A full one pauses its socket; a destroyed one discards. */
export class ChannelOutput extends Readable {
  readonly #onChange: () => void;
  #isFull = false;

  constructor(onChange: () => void) {
    super({ highWaterMark: BUFFER_BYTES });
    this.#onChange = onChange;
    this.on('close', onChange);
    this.on('error', () => {});
  }

  get isFull(): boolean {
    return this.#isFull && !this.destroyed;
  }

  put(bytes: Buffer): void {
    if (this.destroyed) return;
    this.#isFull = !this.push(bytes);
    if (this.#isFull) this.#onChange();
  }

  finish(): void {
    if (!this.destroyed) this.push(null);
  }

  override _read(): void {
    if (!this.#isFull) return;
    this.#isFull = false;
    this.#onChange();
  }
}

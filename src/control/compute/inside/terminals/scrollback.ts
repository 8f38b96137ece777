/**
 * Bounded output history of a terminal. Cuts at line starts, else between sequences, and records
 * the settings (colors, modes, alternate screen) at the cut for replays.
 */
import { isSideEffect, Settings, Tokenizer } from './escape-sequences.ts';

export const SCROLLBACK_BYTES = 256 * 1024;
const CUT_BYTES = SCROLLBACK_BYTES / 4;
/** Extra bytes of a cut to reach a line start. */
const LINE_BYTES = 8 * 1024;
/** The same for the end of a sequence; longer ones are reopened. */
const SEQUENCE_BYTES = 16 * 1024;
const LINE_FEED = 0x0a;

export interface Scrollback {
  add(bytes: Uint8Array): void;
  /** First and last position, counted from the terminal's first byte. */
  readonly start: number;
  readonly end: number;
  since(from: number, maxBytes: number): Buffer;
  /** Restores a fresh screen. `isAlternate`: a program uses the alternate screen. */
  replay(): { bytes: Buffer; isAlternate: boolean };
}

export function makeScrollback(): Scrollback {
  let buffer = Buffer.alloc(8 * 1024);
  let length = 0;
  let start = 0;
  const tokenizer = new Tokenizer();
  const settings = new Settings();

  function pass(byte: number): void {
    const sequence = tokenizer.take(byte);
    if (sequence !== null) settings.take(sequence);
  }

  const mayCut = (at: number): boolean => {
    if (at >= CUT_BYTES + SEQUENCE_BYTES) return true;
    return tokenizer.isBetween && (at >= CUT_BYTES + LINE_BYTES || buffer[at - 1] === LINE_FEED);
  };

  function cut(): void {
    let at = 0;
    while (at < length && !(at >= CUT_BYTES && mayCut(at))) pass(buffer[at++] ?? 0);
    buffer.copyWithin(0, at, length);
    length -= at;
    start += at;
  }

  function grow(wanted: number): void {
    if (wanted <= buffer.length) return;
    const larger = Buffer.alloc(Math.min(SCROLLBACK_BYTES, Math.max(wanted, buffer.length * 2)));
    buffer.copy(larger, 0, 0, length);
    buffer = larger;
  }

  return {
    add(bytes) {
      for (let at = 0; at < bytes.length;) {
        if (length === SCROLLBACK_BYTES) cut();
        const piece = bytes.subarray(at, at + SCROLLBACK_BYTES - length);
        grow(length + piece.length);
        buffer.set(piece, length);
        length += piece.length;
        at += piece.length;
      }
    },
    get start() {
      return start;
    },
    get end() {
      return start + length;
    },
    since(from, maxBytes) {
      return Buffer.from(buffer.subarray(from - start, Math.min(length, from - start + maxBytes)));
    },
    replay() {
      const reading = new Tokenizer();
      const replayed = new Settings();
      const first = Buffer.from(settings.text + tokenizer.reopening, 'latin1');
      const bytes = Buffer.concat([first, buffer.subarray(0, length)]);
      let written = 0;
      let copiedTo = 0;
      let began = 0;
      for (const [at, byte] of bytes.entries()) {
        if (reading.isBetween) began = at;
        const sequence = reading.take(byte);
        if (sequence === null) continue;
        replayed.take(sequence);
        if (!isSideEffect(sequence)) continue;
        // Compacts in place: writes never pass reads.
        const from = sequence.kind === 'character' ? at : began;
        bytes.copyWithin(written, copiedTo, from);
        written += from - copiedTo;
        copiedTo = at + 1;
      }
      bytes.copyWithin(written, copiedTo);
      return { bytes: bytes.subarray(0, written + bytes.length - copiedTo), isAlternate: replayed.isAlternate };
    },
  };
}

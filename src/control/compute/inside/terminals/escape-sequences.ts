/** ECMA-48 and xterm as needed to cut output between sequences and restore a screen's settings. */

export type Sequence =
  | { kind: 'escape'; text: string }
  | { kind: 'control'; text: string }
  /** ESC and one of ] P X ^ _, up to its terminator; `text` is truncated. */
  | { kind: 'string'; opener: string; text: string }
  | { kind: 'character'; code: number };

const [BEL, SO, SI, CAN, SUB, ESC] = [0x07, 0x0e, 0x0f, 0x18, 0x1a, 0x1b];
const ENQ = 0x05;
const STRING_OPENERS = new Set(']PX^_');
/** Longer sequences change no setting. */
const MAX_CHARACTERS = 256;

type State = 'ground' | 'escape' | 'control' | 'string' | 'stringEscape';

export class Tokenizer {
  #state: State = 'ground';
  #opener = '';
  #text = '';
  #continuationBytes = 0;

  /** Returns the sequence that ends with this byte, or null. */
  take(byte: number): Sequence | null {
    switch (this.#state) {
      case 'ground':
        return this.#inGround(byte);
      case 'escape':
        return this.#inEscape(byte);
      case 'control':
        return this.#inControl(byte);
      case 'string':
      case 'stringEscape':
        return this.#inString(byte);
      default:
        return this.#state satisfies never;
    }
  }

  get isBetween(): boolean {
    return this.#state === 'ground' && this.#continuationBytes === 0;
  }

  /** Reopens the current string on another screen; '' if none. */
  get reopening(): string {
    return this.#state === 'string' || this.#state === 'stringEscape' ? `\x1b${this.#opener}` : '';
  }

  #inGround(byte: number): Sequence | null {
    if (byte === ESC) {
      this.#begin('escape');
      return null;
    }
    if (byte < 0x20) {
      this.#continuationBytes = 0;
      return { kind: 'character', code: byte };
    }
    if (byte < 0x80) this.#continuationBytes = 0;
    else if (byte < 0xc0) this.#continuationBytes = Math.max(0, this.#continuationBytes - 1);
    else this.#continuationBytes = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    return null;
  }

  #inEscape(byte: number): Sequence | null {
    if (this.#interrupts(byte)) return null;
    if (byte < 0x20) return { kind: 'character', code: byte };
    const character = String.fromCharCode(byte);
    if (this.#text === '' && character === '[') {
      this.#begin('control');
      return null;
    }
    if (this.#text === '' && STRING_OPENERS.has(character)) {
      this.#begin('string');
      this.#opener = character;
      return null;
    }
    this.#text += character;
    return byte < 0x30 && this.#text.length < 4 ? null : this.#end({ kind: 'escape', text: this.#text });
  }

  #inControl(byte: number): Sequence | null {
    if (this.#interrupts(byte)) return null;
    if (byte < 0x20) return { kind: 'character', code: byte };
    if (this.#text.length < MAX_CHARACTERS) this.#text += String.fromCharCode(byte);
    return byte < 0x40 ? null : this.#end({ kind: 'control', text: this.#text });
  }

  #inString(byte: number): Sequence | null {
    if (this.#state === 'stringEscape') {
      if (byte === 0x5c) return this.#end({ kind: 'string', opener: this.#opener, text: this.#text });
      this.#begin('escape');
      return this.#inEscape(byte);
    }
    if (byte === ESC) {
      this.#state = 'stringEscape';
      return null;
    }
    if (byte === CAN || byte === SUB) {
      this.#state = 'ground';
      return null;
    }
    if (byte === BEL && this.#opener === ']')
      return this.#end({ kind: 'string', opener: this.#opener, text: this.#text });
    if (this.#text.length < MAX_CHARACTERS) this.#text += String.fromCharCode(byte);
    return null;
  }

  #interrupts(byte: number): boolean {
    if (byte === CAN || byte === SUB) this.#state = 'ground';
    else if (byte === ESC) this.#begin('escape');
    else return false;
    return true;
  }

  #begin(state: State): void {
    this.#state = state;
    this.#text = '';
    this.#continuationBytes = 0;
  }

  #end(sequence: Sequence): Sequence {
    this.#state = 'ground';
    return sequence;
  }
}

/** Modes whose last value counts. Alternate screens come first, as each has its own cursor. */
const MODES = [
  1049, 1047, 47, 1, 5, 6, 7, 12, 25, 45, 66, 69, 9, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004, 2031,
];
const ALTERNATE = [1049, 1047, 47];
const MAX_ATTRIBUTES = 24;
const MAX_KEYBOARDS = 8;

export class Settings {
  #modes = new Map<number, boolean>();
  #insert = '';
  #keypad = '';
  #charsets = new Map<string, string>();
  #shift = '';
  #region = '';
  #cursor = '';
  #modifyKeys = '';
  #keyboards: string[] = [];
  #attributes: string[] = [];
  #title = '';

  take(sequence: Sequence): void {
    switch (sequence.kind) {
      case 'character':
        if (sequence.code === SO || sequence.code === SI) this.#shift = String.fromCharCode(sequence.code);
        return;
      case 'string':
        if (sequence.opener === ']' && /^[02];/.test(sequence.text) && sequence.text.length < MAX_CHARACTERS)
          this.#title = sequence.text.slice(2);
        return;
      case 'escape':
        this.#escape(sequence.text);
        return;
      case 'control':
        this.#control(sequence.text.slice(0, -1), sequence.text.slice(-1));
        return;
      default:
        sequence satisfies never;
    }
  }

  get isAlternate(): boolean {
    return ALTERNATE.some((mode) => this.#modes.get(mode) === true);
  }

  /** Restores the settings on a fresh screen. */
  get text(): string {
    const modes = MODES.flatMap((mode) => {
      const set = this.#modes.get(mode);
      return set === undefined ? [] : [`\x1b[?${mode}${set ? 'h' : 'l'}`];
    });
    return [
      ...modes,
      this.#insert,
      this.#keypad,
      ...this.#charsets.values(),
      this.#shift,
      this.#region,
      this.#cursor,
      this.#modifyKeys,
      ...this.#keyboards,
      ...this.#attributes,
      this.#title === '' ? '' : `\x1b]2;${this.#title}\x07`,
    ].join('');
  }

  #reset(): void {
    this.#modes = new Map();
    this.#charsets = new Map();
    this.#insert = this.#keypad = this.#shift = this.#region = this.#cursor = this.#modifyKeys = '';
    this.#keyboards = [];
    this.#attributes = [];
  }

  #escape(text: string): void {
    if (text === 'c') this.#reset();
    else if (text === '=' || text === '>') this.#keypad = `\x1b${text}`;
    else if (/^[()*+]./.test(text)) this.#charsets.set(text.slice(0, 1), `\x1b${text}`);
  }

  #control(inner: string, last: string): void {
    const whole = `\x1b[${inner}${last}`;
    if (last === 'm' && /^[\d;:]*$/.test(inner)) this.#attribute(inner, whole);
    else if ((last === 'h' || last === 'l') && inner.startsWith('?')) {
      for (const mode of inner.slice(1).split(';'))
        if (MODES.includes(Number(mode))) this.#modes.set(Number(mode), last === 'h');
    } else if ((last === 'h' || last === 'l') && inner === '4') this.#insert = whole;
    else if (last === 'r' && /^[\d;]*$/.test(inner)) this.#region = inner === '' ? '' : whole;
    else if (last === 'q' && inner.endsWith(' ')) this.#cursor = whole;
    else if (last === 'm' && inner.startsWith('>4')) this.#modifyKeys = whole;
    else if (last === 'u' && /^[>=]/.test(inner)) this.#keyboards = [...this.#keyboards, whole].slice(-MAX_KEYBOARDS);
    else if (last === 'u' && inner.startsWith('<'))
      this.#keyboards = this.#keyboards.slice(0, -Math.max(1, Number(inner.slice(1)) || 1));
    else if (last === 'p' && inner === '!') this.#reset();
  }

  #attribute(inner: string, whole: string): void {
    if (/^0*(;|$)/.test(inner)) this.#attributes = [];
    if (/^0*$/.test(inner)) return;
    this.#attributes = [...this.#attributes, whole].slice(-MAX_ATTRIBUTES);
  }
}

/** True for queries, which the terminal would answer in a replay, and effects off the screen. */
export function isSideEffect(sequence: Sequence): boolean {
  switch (sequence.kind) {
    case 'character':
      return sequence.code === BEL || sequence.code === ENQ;
    case 'escape':
      return sequence.text === 'Z';
    case 'string': {
      const { opener, text } = sequence;
      if (opener === ']') return /^(52|9|99|777|1337);/.test(text) || /(^|;)\?/.test(text);
      return opener === 'P' && /^[\d;]*[$+]q/.test(text);
    }
    case 'control': {
      const { text } = sequence;
      return /^[>=]?[\d;]*c$|^\??[\d;]*n$|^\??[\d;]*\$p$|^>[\d;]*q$|^\?u$|^[\d;]*x$|^(1[1-9]|2[01])[\d;]*t$/.test(text);
    }
    default:
      return sequence satisfies never;
  }
}

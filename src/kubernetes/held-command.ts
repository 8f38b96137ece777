/**
 * # Command whose end waits for the end of its input
 *
 * Servers close a WebSocket at the end of its command. Whatever a client sends from then on, such
 * as input or its end, makes their kernel reset the connection, which loses output that is under
 * way, and the exit code. So a shell holds the end back: it runs the command, writes a mark to
 * stderr, and exits with the command's code at the end of input, or at a line with the mark.
 */
import type { ChannelOutput } from './channel-output.ts';

/**
 * Names of shell and command stay out of stderr, and a signal to the group ends the command alone.
 * While it waits, the shell shows no words of the command.
 */
const RUN_AND_HOLD = `
trap : HUP INT QUIT TERM USR1 USR2
mark=$1
shift
exec 3>&2 2>/dev/null
(exec "$@") 2>&3 3>&-
code=$?
printf '\\001%s\\002' "$mark" >&3
exec /bin/sh -c 'while IFS= read -r line && [ "$line" != "$0" ]; do :; done; exit "$1"' "$mark" "$code"
`;

/** The shell is the parent of the command and leads their process group. */
export const heldCommand = (mark: string, command: readonly string[]): string[] => [
  '/bin/sh',
  '-c',
  RUN_AND_HOLD,
  'sh',
  mark,
  ...command,
];

/** Takes the mark out of stderr. */
export class MarkedErrors {
  readonly #mark: Buffer;
  readonly #output: ChannelOutput;
  readonly #onMark: () => void;
  /** End of the last chunk that may be the beginning of the mark. */
  #held = Buffer.alloc(0);
  #isFound = false;

  constructor(mark: string, output: ChannelOutput, onMark: () => void) {
    this.#mark = Buffer.from(`\x01${mark}\x02`);
    this.#output = output;
    this.#onMark = onMark;
  }

  put(chunk: Buffer): void {
    if (this.#isFound) return this.#output.put(chunk);
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const at = bytes.indexOf(this.#mark);
    this.#isFound = at >= 0;
    const end = this.#isFound ? at : bytes.length - this.#begunIn(bytes);
    this.#held = Buffer.from(this.#isFound ? [] : bytes.subarray(end));
    this.#give(bytes.subarray(0, end));
    if (!this.#isFound) return;
    this.#give(bytes.subarray(at + this.#mark.length));
    this.#onMark();
  }

  finish(): void {
    this.#give(this.#held);
    this.#output.finish();
  }

  #give(bytes: Buffer): void {
    if (bytes.length > 0) this.#output.put(bytes);
  }

  /** Length of the longest end that begins the mark. */
  #begunIn(bytes: Buffer): number {
    const from = bytes.lastIndexOf(this.#mark[0] ?? 0);
    const end = from < 0 ? Buffer.alloc(0) : bytes.subarray(from);
    return end.length < this.#mark.length && this.#mark.subarray(0, end.length).equals(end) ? end.length : 0;
  }
}

/**
 * A terminal's viewers read the scrollback at their own positions. The shell pauses while all
 * viewers lag; a viewer whose position was cut gets a replay.
 */
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { OpenExec, TerminalSize } from '../../../engines/contract.ts';
import type { Log } from '../../base/log.ts';
import { drained } from '../../../async/abort.ts';
import type { Time } from '../../base/time.ts';
import { makeScrollback, SCROLLBACK_BYTES } from './scrollback.ts';
import type { AttachedTerminal, TerminalMessage } from './terminal-host.ts';

const PIECE_BYTES = 32 * 1024;
const BEHIND_BYTES = SCROLLBACK_BYTES / 2;
/** Programs that see two sizes at once only notice the second; throttled ones are slow. */
const REDRAW_MS = 250;

export interface Terminal {
  readonly size: TerminalSize;
  readonly viewers: number;
  attach(size: TerminalSize, created: boolean): AttachedTerminal;
  close(): Promise<void>;
  readonly ended: Promise<TerminalMessage>;
}

interface Viewer {
  /** Null: a replay is due. */
  place: number | null;
  toldSize: TerminalSize;
  left: boolean;
  wake: () => void;
}

export interface TerminalDeps {
  shell: OpenExec;
  size: TerminalSize;
  time: Pick<Time, 'sleep'>;
  log: Pick<Log, 'warn'>;
  onViewers: (viewers: number) => void;
}

export function makeTerminal({ shell, size: first, time, log, onViewers }: TerminalDeps): Terminal {
  const scrollback = makeScrollback();
  const viewers = new Set<Viewer>();
  let size = first;
  let last: TerminalMessage | null = null;
  let wakeReader = (): void => {};
  let closed = false;
  const over = new AbortController();

  const wakeAll = (): void => {
    for (const { wake } of viewers) wake();
  };
  const isFull = ({ place }: Viewer): boolean => place !== null && scrollback.end - place > BEHIND_BYTES;

  async function read(): Promise<void> {
    for await (const chunk of shell.stdout) {
      const bytes: Uint8Array = chunk;
      // Small pieces, so that a viewer keeping up never loses its position.
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
        scrollback.add(bytes.subarray(at, at + PIECE_BYTES));
        wakeAll();
        while (!closed && viewers.size > 0 && [...viewers].every(isFull))
          await new Promise<void>((resolve) => (wakeReader = resolve));
      }
    }
  }

  async function toItsEnd(): Promise<TerminalMessage> {
    shell.stderr.resume();
    const reading = read().catch((error: unknown) => log.warn({ err: error }, 'the output of a terminal broke off'));
    const told = await shell.exited.then(
      (exitCode): TerminalMessage =>
        closed
          ? { kind: 'ended', exitCode: null, why: 'the terminal was closed' }
          : { kind: 'ended', exitCode, why: 'the shell ended' },
      (error: unknown): TerminalMessage => {
        const why = error instanceof Error ? error.message : String(error);
        const isLost = error instanceof EngineFault && error.kind === 'unreachable';
        return isLost ? { kind: 'lost', why } : { kind: 'ended', exitCode: null, why };
      },
    );
    over.abort();
    await reading;
    last = told;
    wakeAll();
    return told;
  }
  const ended = toItsEnd();

  let shellSize = first;
  let wantsRedraw = false;
  let isSizing = false;
  async function tellShell(next: TerminalSize): Promise<void> {
    try {
      await shell.resize(next);
    } catch (error) {
      log.warn({ err: error }, 'a terminal could not be sized');
    }
  }
  /** Sends one size at a time, and skips outdated ones. */
  async function sizeShell(): Promise<void> {
    if (isSizing) return;
    isSizing = true;
    while (wantsRedraw || shellSize !== size) {
      if (wantsRedraw) {
        wantsRedraw = false;
        await tellShell({ ...size, rows: size.rows > 1 ? size.rows - 1 : size.rows + 1 });
        await time.sleep(REDRAW_MS, over.signal).catch(() => {});
      }
      shellSize = size;
      await tellShell(shellSize);
    }
    isSizing = false;
  }
  function resize(next: TerminalSize): void {
    if (next.columns === size.columns && next.rows === size.rows) return;
    size = next;
    void sizeShell();
    wakeAll();
  }
  /** Full-screen programs redraw only when the size changes. */
  function redraw(): void {
    wantsRedraw = true;
    void sizeShell();
  }

  async function* tell(viewer: Viewer, resized: boolean): AsyncGenerator<TerminalMessage, void> {
    let isFirst = true;
    try {
      while (!viewer.left) {
        if (viewer.place === null || viewer.place < scrollback.start) {
          if (!isFirst) yield { kind: 'reset' };
          const { bytes, isAlternate } = scrollback.replay();
          viewer.place = scrollback.end;
          wakeReader();
          if (isAlternate && !resized) redraw();
          for (let at = 0; at < bytes.length; at += PIECE_BYTES)
            yield { kind: 'output', bytes: bytes.subarray(at, at + PIECE_BYTES) };
        } else if (viewer.toldSize !== size) {
          viewer.toldSize = size;
          yield { kind: 'size', ...size };
        } else if (viewer.place < scrollback.end) {
          const bytes = scrollback.since(viewer.place, PIECE_BYTES);
          viewer.place += bytes.length;
          wakeReader();
          yield { kind: 'output', bytes };
        } else if (last !== null) {
          return yield last;
        } else {
          await new Promise<void>((resolve) => (viewer.wake = resolve));
        }
        isFirst = false;
      }
    } finally {
      leave(viewer);
    }
  }

  function leave(viewer: Viewer): void {
    if (!viewers.delete(viewer)) return;
    viewer.left = true;
    viewer.wake();
    wakeReader();
    onViewers(viewers.size);
  }

  return {
    get size() {
      return size;
    },
    get viewers() {
      return viewers.size;
    },
    ended,
    attach(wanted, created) {
      const before = size;
      resize(wanted);
      const viewer: Viewer = { place: null, toldSize: size, left: false, wake: () => {} };
      viewers.add(viewer);
      wakeReader();
      onViewers(viewers.size);
      return {
        created,
        size,
        messages: tell(viewer, size !== before),
        async type(bytes) {
          const { stdin } = shell;
          if (last !== null || viewer.left || stdin.destroyed) return;
          if (!stdin.write(bytes)) await drained(stdin);
        },
        resize: (next) => {
          if (!viewer.left) resize(next);
        },
        leave: () => leave(viewer),
      };
    },
    async close() {
      closed = true;
      wakeReader();
      await shell.kill();
    },
  };
}

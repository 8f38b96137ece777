/** The size of a terminal's shell, sent one at a time; outdated sizes are skipped. */
import type { OpenExec, TerminalSize } from '../../../engines/contract.ts';
import type { Log } from '../../base/log.ts';
import type { Time } from '../../base/time.ts';

/** Programs that see two sizes at once only notice the second; throttled ones are slow. */
const REDRAW_MS = 250;

export interface ShellSize {
  readonly current: TerminalSize;
  /** Returns false when the size is unchanged. */
  set(size: TerminalSize): boolean;
  /** Full-screen programs redraw only when the size changes. */
  redraw(): void;
}

export function makeShellSize(
  first: TerminalSize,
  {
    shell,
    time,
    log,
    signal,
  }: { shell: Pick<OpenExec, 'resize'>; time: Pick<Time, 'sleep'>; log: Pick<Log, 'warn'>; signal: AbortSignal },
): ShellSize {
  let size = first;
  let shellSize = first;
  let wantsRedraw = false;
  let isSending = false;

  async function send(next: TerminalSize): Promise<void> {
    try {
      await shell.resize(next);
    } catch (error) {
      log.warn({ err: error }, 'a terminal could not be resized');
    }
  }

  async function sendLatest(): Promise<void> {
    if (isSending) return;
    isSending = true;
    while (wantsRedraw || shellSize !== size) {
      if (wantsRedraw) {
        wantsRedraw = false;
        await send({ ...size, rows: size.rows > 1 ? size.rows - 1 : size.rows + 1 });
        await time.sleep(REDRAW_MS, signal).catch(() => {});
      }
      shellSize = size;
      await send(shellSize);
    }
    isSending = false;
  }

  return {
    get current() {
      return size;
    },
    set(next) {
      if (next.columns === size.columns && next.rows === size.rows) return false;
      size = next;
      void sendLatest();
      return true;
    },
    redraw() {
      wantsRedraw = true;
      void sendLatest();
    },
  };
}

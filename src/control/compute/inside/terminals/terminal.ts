/**
 * A terminal's viewers read the scrollback at their own positions. The shell pauses while all
 * viewers lag; a viewer whose position was cut gets a replay.
 */
import { EngineFault } from '../../../../domain/regions/engine-fault.ts';
import { errorText } from '../../../../domain/kernel/unknown-error.ts';
import type { OpenExec, TerminalSize } from '../../../../engines/contract.ts';
import { drained } from '../../../../async/abort.ts';
import { makeScrollback, SCROLLBACK_BYTES } from './scrollback.ts';
import { makeShellSize } from './terminal-shell.ts';
import type { AttachedTerminal, TerminalMessage } from './terminal-host.ts';
import type { Log, Time } from '../../../kernel/ports.ts';

const PIECE_BYTES = 32 * 1024;
const BEHIND_BYTES = SCROLLBACK_BYTES / 2;

export interface Terminal {
  readonly size: TerminalSize;
  readonly viewers: number;
  attach(size: TerminalSize, created: boolean): AttachedTerminal;
  close(): Promise<void>;
  readonly ended: Promise<TerminalMessage>;
}

interface Viewer {
  position: number | null;
  sentSize: TerminalSize;
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
  let lastMessage: TerminalMessage | null = null;
  let wakeReader = (): void => {};
  let closed = false;
  const exited = new AbortController();
  const size = makeShellSize(first, { shell, time, log, signal: exited.signal });

  const wakeAll = (): void => {
    for (const { wake } of viewers) wake();
  };
  const isBehind = ({ position }: Viewer): boolean => position !== null && scrollback.end - position > BEHIND_BYTES;

  async function read(): Promise<void> {
    for await (const chunk of shell.stdout) {
      const bytes: Uint8Array = chunk;
      // Small pieces, so that a viewer keeping up never loses its position.
      for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
        scrollback.add(bytes.subarray(at, at + PIECE_BYTES));
        wakeAll();
        while (!closed && viewers.size > 0 && [...viewers].every(isBehind))
          await new Promise<void>((resolve) => (wakeReader = resolve));
      }
    }
  }

  async function readToExit(): Promise<TerminalMessage> {
    shell.stderr.resume();
    const reading = read().catch((error: unknown) => log.warn({ err: error }, 'the output of a terminal broke off'));
    const message = await messageOfExit(shell, () => closed);
    exited.abort();
    await reading;
    lastMessage = message;
    wakeAll();
    return message;
  }
  const ended = readToExit();

  function resize(next: TerminalSize): void {
    if (size.set(next)) wakeAll();
  }

  async function* messagesFor(viewer: Viewer, resized: boolean): AsyncGenerator<TerminalMessage, void> {
    let isFirst = true;
    try {
      while (!viewer.left) {
        if (viewer.position === null || viewer.position < scrollback.start) {
          if (!isFirst) yield { kind: 'reset' };
          const { bytes, isAlternate } = scrollback.replay();
          viewer.position = scrollback.end;
          wakeReader();
          if (isAlternate && !resized) size.redraw();
          for (let at = 0; at < bytes.length; at += PIECE_BYTES)
            yield { kind: 'output', bytes: bytes.subarray(at, at + PIECE_BYTES) };
        } else if (viewer.sentSize !== size.current) {
          viewer.sentSize = size.current;
          yield { kind: 'size', ...viewer.sentSize };
        } else if (viewer.position < scrollback.end) {
          const bytes = scrollback.since(viewer.position, PIECE_BYTES);
          viewer.position += bytes.length;
          wakeReader();
          yield { kind: 'output', bytes };
        } else if (lastMessage !== null) {
          return yield lastMessage;
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
      return size.current;
    },
    get viewers() {
      return viewers.size;
    },
    ended,
    attach(wanted, created) {
      const before = size.current;
      resize(wanted);
      const viewer: Viewer = { position: null, sentSize: size.current, left: false, wake: () => {} };
      viewers.add(viewer);
      wakeReader();
      onViewers(viewers.size);
      return {
        created,
        size: size.current,
        messages: messagesFor(viewer, size.current !== before),
        async type(bytes) {
          const { stdin } = shell;
          if (lastMessage !== null || viewer.left || stdin.destroyed) return;
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

const messageOfExit = (shell: OpenExec, isClosed: () => boolean): Promise<TerminalMessage> =>
  shell.exited.then(
    (exitCode): TerminalMessage =>
      isClosed()
        ? { kind: 'ended', exitCode: null, why: 'the terminal was closed' }
        : { kind: 'ended', exitCode, why: 'the shell ended' },
    (error: unknown): TerminalMessage => {
      const why = errorText(error);
      const isLost = error instanceof EngineFault && error.kind === 'unreachable';
      return isLost ? { kind: 'lost', why } : { kind: 'ended', exitCode: null, why };
    },
  );

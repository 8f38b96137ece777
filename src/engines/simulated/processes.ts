/** A simulated command: streams, terminal, and the end by exit, kill, or end of the run. */
import { constants } from 'node:os';
import { PassThrough, Writable } from 'node:stream';
import { drained, onAbort, raceAbort } from '../../async/abort.ts';
import type { ExecRequest, OpenExec, TerminalSize } from '../contract.ts';
import type { EngineFault } from '../../domain/regions/engine-fault.ts';

export interface Io {
  read(signal: AbortSignal): Promise<Buffer | null>;
  out(bytes: Buffer | string): Promise<void>;
  err(bytes: Buffer | string): Promise<void>;
  size(): TerminalSize | null;
  onInterrupt: (() => void) | undefined;
  signal: AbortSignal;
}

const ENDED_BY = 128;
const INPUT_BYTES = 64 * 1024;

export function openProcess(
  request: ExecRequest,
  program: (io: Io) => Promise<number>,
  attach: (lose: (fault: EngineFault) => void) => () => void,
): OpenExec {
  const input = new Input();
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const ended = new AbortController();
  let size = request.terminal;
  const io: Io = {
    read: (signal) => input.next(signal),
    out: (bytes) => writeTo(stdout, size === null ? bytes : onTerminal(bytes), ended.signal),
    err: (bytes) => writeTo(size === null ? stderr : stdout, size === null ? bytes : onTerminal(bytes), ended.signal),
    size: () => size,
    onInterrupt: undefined,
    signal: ended.signal,
  };
  const stdin =
    size === null
      ? input
      : makeTerminal(
          input,
          (text) => void stdout.write(text),
          () => io.onInterrupt?.(),
        );
  stdin.on('error', () => {});

  const { promise: cut, resolve: endBySignal, reject: lose } = Promise.withResolvers<number>();
  const detach = attach(lose);
  const exited = Promise.race([program(io), cut]).finally(() => {
    detach();
    ended.abort();
    for (const stream of [stdin, input]) stream.destroy();
    for (const stream of [stdout, stderr]) stream.end();
  });
  exited.catch(() => {});
  return {
    stdin,
    stdout,
    stderr,
    async resize(next) {
      if (size !== null) size = { ...next };
    },
    exited,
    async kill(signal = 'KILL') {
      endBySignal(ENDED_BY + constants.signals[`SIG${signal}`]);
      await exited.catch(() => {});
    },
  };
}

const onTerminal = (bytes: Buffer | string): string => bytes.toString().replaceAll('\n', '\r\n');

function writeTo(stream: PassThrough, bytes: Buffer | string, signal: AbortSignal): Promise<void> {
  // Yields a turn: unread output must not starve the event loop.
  if (stream.destroyed || signal.aborted) return new Promise((resolve) => setImmediate(resolve));
  stream.write(bytes);
  return raceAbort(drained(stream), signal).catch(() => {});
}

class Input extends Writable {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #pendingWrite: (() => void) | undefined;
  #wake: (() => void) | undefined;

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#chunks.push(Buffer.from(chunk)); // the writer may reuse its buffer
    this.#bytes += chunk.length;
    if (this.#bytes < INPUT_BYTES) done();
    else this.#pendingWrite = done;
    this.#wake?.();
  }

  override _final(done: () => void): void {
    done();
    setImmediate(() => this.#wake?.());
  }

  async next(signal: AbortSignal): Promise<Buffer | null> {
    signal.throwIfAborted();
    while (this.#chunks.length === 0 && !this.writableFinished) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const unsubscribe = onAbort(signal, resolve);
      await promise;
      unsubscribe();
      signal.throwIfAborted();
    }
    const chunk = this.#chunks.shift() ?? null;
    this.#bytes -= chunk?.length ?? 0;
    const pendingWrite = this.#pendingWrite;
    this.#pendingWrite = undefined;
    pendingWrite?.();
    return chunk;
  }
}

const [CTRL_C, CTRL_D, ERASE] = ['\x03', '\x04', '\x7f'];

/** A minimal line discipline: echo, erase, newline, Ctrl-C, Ctrl-D. */
function makeTerminal(input: Writable, echo: (text: string) => void, interrupt: () => void): Writable {
  let line = '';
  const decoder = new TextDecoder();
  const handleKey = (key: string): void => {
    if (key === '\r' || key === '\n') {
      echo('\r\n');
      input.write(`${line}\n`);
      line = '';
    } else if (key === CTRL_C) {
      echo('^C\r\n');
      line = '';
      interrupt();
    } else if (key === CTRL_D) {
      if (line === '') input.end();
      else input.write(line);
      line = '';
    } else if (key === ERASE || key === '\b') {
      if (line !== '') echo('\b \b');
      line = [...line].slice(0, -1).join('');
    } else {
      echo(key);
      line += key;
    }
  };
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      for (const key of decoder.decode(chunk, { stream: true })) if (!input.writableEnded) handleKey(key);
      if (input.writableNeedDrain) input.once('drain', () => done()).once('close', () => done());
      else done();
    },
  });
}

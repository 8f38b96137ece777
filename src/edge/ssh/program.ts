/**
 * # The program of a session
 *
 * A command inside, by the engine's exec, with its streams on a channel. What sshd gets from the kernel has to be done here:
 *
 * - **Signals** go to its group of processes by a second command, which needs the number that `commands.ts` has the first one say.
 * - **A client that leaves** hangs the terminal up. Without a terminal its command goes on, as under sshd, until it writes to who is gone:
 *   then it is told so by a signal, and by harder ones while it goes on writing.
 */
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import type { ServerChannel } from 'ssh2';
import type { SshBackend, Log } from '../../control/index.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import type { Client } from './client.ts';
import { execRequest, readPid, signalCommand, signalNumbers, type SessionRequest } from './commands.ts';
import type { OpenExec, TerminalSize } from './instance-driver.ts';
import { feed } from './join.ts';
import type { WriteQueue } from './write-queue.ts';
import type { TryAcquire } from '../../async/limits.ts';

const OPEN_MS = 30_000;
const SIGNAL_MS = 10_000;
/** A shell that has been hung up ends at once; one that ignores it is ended. */
const HUNG_UP_MS = 10_000;
/** Between two signals to a command that writes to who is gone. */
const PIPE_MS = 2_000;
/** What sshd's sessions get first is the first here; some programs ignore it and take the failed write that comes with it, which these don't have. */
const TO_WRITERS = ['PIPE', 'HUP', 'TERM', 'KILL'];
/** As ssh says it of a connection that failed. */
const NOT_BEGUN = 255;
const BY_SIGNAL = 128;

export interface ProgramDeps {
  client: Client;
  backend: Pick<SshBackend, 'openExec' | 'exec'>;
  id: InstanceId;
  log: Log;
  /** As long as it is there: also after its client has left. Null: there are too many. */
  tryAcquire: TryAcquire;
  channel: ServerChannel;
  output: WriteQueue;
  request: () => Promise<SessionRequest>;
}

export interface Program {
  resize(size: TerminalSize): void;
  signal(name: string): void;
  /** Its client has closed the channel. */
  leave(): void;
}

export function runProgram(deps: ProgramDeps): Program {
  const { client, backend, id, log, channel, output } = deps;
  let exec: OpenExec | null = null;
  const { promise: pid, resolve: knowPid } = Promise.withResolvers<number | null>();
  let hasEnded = false;
  let isClosed = false;
  let left = (): void => {};
  const sent = new Set<string>();

  const signals = oneByOne(async (signal: string) => {
    const leader = await pid;
    if (leader === null || hasEnded) return;
    await backend.exec(id, signalCommand(signal, leader), AbortSignal.timeout(SIGNAL_MS)).catch((error: unknown) => {
      log.debug({ id, err: error }, 'a signal of an ssh session was not delivered');
    });
  });
  const sizes = oneByOne(async (size: TerminalSize) => exec?.resize(size).catch(() => {}));

  async function run(): Promise<void> {
    const over = deps.tryAcquire();
    if (over === null)
      return refuse(
        'this instance, or all of them together, have too many commands open; end some of them, or close other sessions',
      );
    try {
      const wish = await deps.request();
      if (client.gone.aborted) return;
      const opening = AbortSignal.any([client.gone, AbortSignal.timeout(OPEN_MS)]);
      exec = await backend.openExec(id, execRequest(wish), opening);
      await carry(exec, wish.terminal);
    } finally {
      knowPid(null);
      over();
    }
  }

  async function carry(opened: OpenExec, terminal: TerminalSize | null): Promise<void> {
    const hasTerminal = terminal !== null;
    const leave = makeHangUp(hasTerminal, signals.instead);
    // Listened to before anything is waited for: it may end at once.
    const exited = opened.exited.then(
      (code) => ({ code }),
      (error: unknown) => ({ code: null, error }),
    );
    left = () => {
      left = () => {};
      opened.stdin.end();
      if (!hasEnded) leave.left();
    };
    const gone = (): void => left();
    client.gone.addEventListener('abort', gone, { once: true });
    try {
      if (client.gone.aborted || isClosed) left();
      const [first, other] = hasTerminal ? [opened.stdout, opened.stderr] : [opened.stderr, opened.stdout];
      // The other stream is read meanwhile: either holds up both, and what was written first need not come first.
      const begun = stripPid(first).then(knowPid);
      // What is typed before would be echoed before the number.
      if (hasTerminal) await begun;
      feed(channel, opened.stdin);
      const write = async (bytes: Buffer, to: 'stdout' | 'stderr'): Promise<void> => {
        if (!(await output.write(bytes, to))) leave.wrote();
      };
      await Promise.all([
        begun.then(() => readAll(first, (bytes) => write(bytes, hasTerminal ? 'stdout' : 'stderr'))),
        readAll(other, (bytes) => write(bytes, hasTerminal ? 'stderr' : 'stdout')),
      ]);
      const { code } = await exited;
      hasEnded = true;
      await close(code);
    } finally {
      hasEnded = true;
      leave.ended();
      client.gone.removeEventListener('abort', gone);
    }
  }

  async function close(code: number | null): Promise<void> {
    if (client.gone.aborted) return;
    const signal = [...sent].find((name) => code === BY_SIGNAL + (signalNumbers[name] ?? 0));
    if (code === null) {
      await output.write(Buffer.from('the instance has ended, and this session with it\r\n'), 'stderr');
      channel.exit('KILL', false, '');
    } else if (signal !== undefined) channel.exit(signal, false, '');
    else channel.exit(code);
    channel.end();
    channel.resume();
  }

  async function refuse(why: string): Promise<void> {
    await output.write(Buffer.from(`${why}\r\n`), 'stderr');
    if (client.gone.aborted) return;
    channel.exit(NOT_BEGUN);
    channel.end();
    channel.resume();
  }

  run()
    .catch((error: unknown) => {
      if (client.gone.aborted) return;
      if (!(error instanceof EngineFault)) log.warn({ id, err: error }, 'an ssh session broke');
      return refuse(error instanceof EngineFault ? error.message : 'the session could not be opened; try again');
    })
    .catch((error: unknown) => client.end(String(error)));

  return {
    resize: sizes.instead,
    signal(name) {
      if (signalNumbers[name] === undefined) return;
      sent.add(name);
      signals.also(name);
    },
    leave() {
      isClosed = true;
      left();
    },
  };
}

/** One under way, however many are asked for; what waits is there once, as a signal that is pending is. */
function oneByOne<T>(deed: (asked: T) => Promise<unknown>): { also(asked: T): void; instead(asked: T): void } {
  const waiting = new Set<T>();
  let isUnderWay = false;
  const go = async (): Promise<void> => {
    if (isUnderWay) return;
    isUnderWay = true;
    for (const next of waiting) {
      waiting.delete(next);
      await deed(next);
    }
    isUnderWay = false;
  };
  const also = (asked: T): void => {
    waiting.add(asked);
    void go();
  };
  return {
    also,
    instead(asked) {
      waiting.clear();
      also(asked);
    },
  };
}

/** What a command is told of a client that is gone: that alone, and nothing more of what the client wanted. */
function makeHangUp(hasTerminal: boolean, kill: (signal: string) => void) {
  let timer: NodeJS.Timeout | null = null;
  let next = 0;
  return {
    left() {
      if (!hasTerminal) return;
      kill('HUP');
      timer = setTimeout(() => kill('KILL'), HUNG_UP_MS);
    },
    wrote() {
      if (hasTerminal || timer !== null) return;
      kill(TO_WRITERS[next] ?? 'KILL');
      next += 1;
      timer = setTimeout(() => (timer = null), PIPE_MS);
    },
    ended() {
      if (timer !== null) clearTimeout(timer);
    },
  };
}

/** Takes the number of the process off what it writes. */
async function stripPid(stream: Readable): Promise<number | null> {
  const parts: Buffer[] = [];
  for (;;) {
    const bytes: Buffer | null = stream.read();
    if (bytes !== null) parts.push(bytes);
    const told = readPid(Buffer.concat(parts));
    if (told !== null || stream.readableEnded || stream.destroyed) {
      const rest = told?.rest ?? Buffer.concat(parts);
      if (rest.length > 0 && !stream.readableEnded) stream.unshift(rest);
      return told?.pid ?? null;
    }
    if (bytes === null) await Promise.race([once(stream, 'readable'), once(stream, 'close')]).catch(() => {});
  }
}

async function readAll(stream: Readable, take: (bytes: Buffer) => Promise<void>): Promise<void> {
  // What broke it is told by its exit.
  stream.on('error', () => {});
  try {
    for await (const bytes of stream) await take(bytes);
  } catch {}
}

/**
 * The program of a session, run by the engine's exec. Signals go to the process group by a second
 * exec. A client that leaves hangs up its terminal; a command without one continues, as under sshd,
 * until a write fails with PIPE, then harder signals.
 */
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import type { ServerChannel } from 'ssh2';
import type { OpenExec, SshBackend, Log, TerminalSize } from '../../control/index.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { SshClient } from './ssh-client.ts';
import { sessionExecRequest, readPid, killCommand, signalNumbers } from './session-commands.ts';
import type { SessionRequest } from './session-commands.ts';
import { feed } from './join.ts';
import type { WriteQueue } from './write-queue.ts';
import { onAbort, withDeadline } from '../../async/abort.ts';
import { makeCoalescingQueue } from '../../async/coalesce.ts';
import type { TryAcquire } from '../../async/limits.ts';

const OPEN_MS = 30_000;
const SIGNAL_MS = 10_000;
/** Grace period after HUP, then KILL. */
const HUNG_UP_MS = 10_000;
const PIPE_MS = 2_000;
/** Programs that ignore PIPE expect a failed write, which exec lacks. */
const TO_WRITERS = ['PIPE', 'HUP', 'TERM', 'KILL'];
/** Exit code of ssh for a failed connection. */
const NOT_BEGUN = 255;
const BY_SIGNAL = 128;

export interface ProgramDeps {
  client: SshClient;
  backend: Pick<SshBackend, 'openExec' | 'exec'>;
  id: InstanceId;
  log: Log;
  /** Permit held until the command ends, also after its client left. */
  tryAcquire: TryAcquire;
  channel: ServerChannel;
  output: WriteQueue;
  request: () => Promise<SessionRequest>;
}

export interface Program {
  resize(size: TerminalSize): void;
  signal(name: string): void;
  leave(): void;
}

export function runProgram(deps: ProgramDeps): Program {
  const { client, backend, id, log, channel, output } = deps;
  let exec: OpenExec | null = null;
  const { promise: pid, resolve: resolvePid } = Promise.withResolvers<number | null>();
  let hasEnded = false;
  let isClosed = false;
  let left = (): void => {};
  const sent = new Set<string>();

  const signals = makeCoalescingQueue(async (signal: string) => {
    const leader = await pid;
    if (leader === null || hasEnded) return;
    await backend.exec(id, killCommand(signal, leader), AbortSignal.timeout(SIGNAL_MS)).catch((error: unknown) => {
      log.debug({ id, err: error }, 'could not deliver a signal of an ssh session');
    });
  });
  const sizes = makeCoalescingQueue(async (size: TerminalSize) => exec?.resize(size).catch(() => {}));

  async function run(): Promise<void> {
    const release = deps.tryAcquire();
    if (release === null)
      return refuse(
        'this instance, or all instances together, have too many open commands; end some commands, or close other sessions',
      );
    try {
      const request = await deps.request();
      if (client.gone.aborted) return;
      exec = await backend.openExec(id, sessionExecRequest(request), withDeadline(client.gone, OPEN_MS));
      await carry(exec, request.terminal);
    } finally {
      resolvePid(null);
      release();
    }
  }

  async function carry(opened: OpenExec, terminal: TerminalSize | null): Promise<void> {
    const hasTerminal = terminal !== null;
    const leave = makeHangUp(hasTerminal, signals.replace);
    // Subscribe before the first await: the command may exit at once.
    const exited = opened.exited.then(
      (code) => ({ code }),
      (error: unknown) => ({ code: null, error }),
    );
    left = () => {
      left = () => {};
      opened.stdin.end();
      if (!hasEnded) leave.left();
    };
    const unsubscribe = onAbort(client.gone, () => left());
    try {
      if (isClosed) left();
      const [first, other] = hasTerminal ? [opened.stdout, opened.stderr] : [opened.stderr, opened.stdout];
      // Read both streams: an unread one blocks the other.
      const begun = stripPid(first).then(resolvePid);
      // Earlier input would be echoed before the process id.
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
      unsubscribe();
    }
  }

  function close(code: number | null): Promise<void> {
    const signal = [...sent].find((name) => code === BY_SIGNAL + (signalNumbers[name] ?? 0));
    if (code === null)
      return finish(() => channel.exit('KILL', false, ''), 'the instance has stopped, which ends this session');
    return finish(() => (signal === undefined ? channel.exit(code) : channel.exit(signal, false, '')));
  }

  const refuse = (why: string): Promise<void> => finish(() => channel.exit(NOT_BEGUN), why);

  async function finish(exit: () => void, why?: string): Promise<void> {
    if (why !== undefined) await output.write(Buffer.from(`${why}\r\n`), 'stderr');
    if (client.gone.aborted) return;
    exit();
    channel.end();
    channel.resume();
  }

  run()
    .catch((error: unknown) => {
      if (client.gone.aborted) return;
      if (!(error instanceof EngineFault)) log.warn({ id, err: error }, 'an ssh session failed');
      return refuse(error instanceof EngineFault ? error.message : 'the session could not be opened; try again');
    })
    .catch((error: unknown) => client.end(String(error)));

  return {
    resize: sizes.replace,
    signal(name) {
      if (signalNumbers[name] === undefined) return;
      sent.add(name);
      signals.add(name);
    },
    leave() {
      isClosed = true;
      left();
    },
  };
}

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

async function stripPid(stream: Readable): Promise<number | null> {
  const parts: Buffer[] = [];
  for (;;) {
    const bytes: Buffer | null = stream.read();
    if (bytes !== null) parts.push(bytes);
    const found = readPid(Buffer.concat(parts));
    if (found !== null || stream.readableEnded || stream.destroyed) {
      const rest = found?.rest ?? Buffer.concat(parts);
      if (rest.length > 0 && !stream.readableEnded) stream.unshift(rest);
      return found?.pid ?? null;
    }
    if (bytes === null) await Promise.race([once(stream, 'readable'), once(stream, 'close')]).catch(() => {});
  }
}

async function readAll(stream: Readable, take: (bytes: Buffer) => Promise<void>): Promise<void> {
  // The exit reports a broken stream.
  stream.on('error', () => {});
  try {
    for await (const bytes of stream) await take(bytes);
  } catch {}
}

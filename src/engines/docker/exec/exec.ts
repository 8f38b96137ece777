/**
 * # Commands inside, whose streams stay open
 *
 * Docker's own way: an exec object is made, and its start turns the connection into the streams of the command. What it leaves open:
 *
 * - **Whether it began.** The start answers before, and what kept the command from beginning comes as text on its stdout. So the exec is
 *   looked at until it has a process; without one the text is read as a fault, or as the shell's 126 and 127.
 * - **The limit of processes.** A command is put into it when its process is made already: at the limit it mostly begins all the same and
 *   can make none of its own; now and then the engine is refused one as well, and then it has not begun.
 * - **A slow reader.** Docker keeps up to 1 MB of a stream for it, then holds the command up; but two seconds after the command ended
 *   it drops what has not reached that store. So whoever is held up here asks now and then whether the command ended, and then
 *   takes all that is left: 3 MB at most, for both streams, kernel's and Docker's buffers together.
 * - **Leaving.** With a terminal, Docker takes the end of input as one's leaving, so that is not passed on; and Ctrl-P Ctrl-Q too, which is
 *   set to something that nobody types.
 * - **Memory.** What is read lies in buffers of 64 KiB, a new one for each read, which V8 gives back when some 64 MB of them are dead: that is
 *   of the whole process, with one stream (59 MB) as with eight (73 MB). Alive are three of them for a stream that nobody reads. A small
 *   piece is copied out: 1,500 bytes of stderr that waited had kept 20 MB of the stdout that they came beside.
 * - **Killing.** It has no verb for that: `kill.ts`.
 */
import { randomBytes } from 'node:crypto';
import { Writable, type Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type Docker from 'dockerode';
import { EngineFault } from '../../../domain/engine-fault.ts';
import type { ExecSignal, ExecRequest, OpenExec, TerminalSize } from '../../contract.ts';
import type { Client } from '../client/client.ts';
import { faultOf, isContainerGone, sentenceOf, statusOf } from '../client/faults.ts';
import { signalCommand } from './kill.ts';
import { Output } from './output.ts';
import { makeDemultiplexer } from './streams.ts';

/** Between two questions to the engine, which each have this long. */
const ANSWER_MS = 30_000;
const SHORTEST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 1_000;
/** For a command to begin whose opening was given up. */
const ABANDON_MS = 5_000;
/** Well below the two seconds after which Docker drops. */
const HELD_UP_MS = 600;
const KILLED = 137;
/** A container's end is seen a moment after that of the commands in it. */
const LOOKS_AFTER_KILLED = 6;
const LOOK_AGAIN_MS = 60;

export interface Opening {
  client: Client;
  /** As it was just now. */
  info: Pick<Docker.ContainerInspectInfo, 'Id' | 'State'>;
  wish: ExecRequest;
  signal: AbortSignal;
  /** Cuts the connection afterwards; the command goes on. */
  stopping: AbortSignal;
}

export async function openInside({ client, info, wish, signal, stopping }: Opening): Promise<OpenExec> {
  const { call, docker } = client;
  const container = docker.getContainer(info.Id);
  const whileOpen = (): AbortSignal => AbortSignal.any([stopping, AbortSignal.timeout(ANSWER_MS)]);

  const exec = await call(signal, (abortSignal) => container.exec({ ...requestOf(wish), abortSignal })).catch(
    notRunning,
  );
  const inspect = (by: AbortSignal): Promise<Docker.ExecInspectInfo> =>
    call(by, (abortSignal) => exec.inspect({ abortSignal }));
  const resize = async (by: AbortSignal, { columns: w, rows: h }: TerminalSize): Promise<void> => {
    await call(by, (abortSignal) => exec.resize({ h, w, abortSignal }));
  };
  /** Whether the container still is in the run that the command belongs to. */
  const runsStill = async (): Promise<boolean> => {
    try {
      const { State } = await call(whileOpen(), (abortSignal) => container.inspect({ abortSignal }));
      return State.Running && State.StartedAt === info.State.StartedAt;
    } catch (error) {
      if (isContainerGone(error)) return false;
      throw error;
    }
  };
  const run = async (command: readonly string[]): Promise<{ exitCode: number; said: string }> => {
    const script = { command, env: {}, terminal: null };
    const { stdout, stderr, exited } = await openInside({ client, info, wish: script, signal: whileOpen(), stopping });
    stdout.resume();
    return { said: await text(stderr), exitCode: await exited };
  };
  const kill = async (signal: ExecSignal = 'KILL'): Promise<void> => {
    try {
      const { Running, Pid } = await inspect(whileOpen());
      if (Running) await signalCommand({ client, containerId: info.Id, hostPid: Pid, run, signal });
    } catch (error) {
      if (isGone(error)) return;
      if ((await inspect(whileOpen())).Running && (await runsStill())) throw error;
    }
  };

  let socket: Duplex | undefined;
  const leave = (): void => void socket?.destroy();
  /** Nobody holds it, so it is not to run. */
  const abandon = async (): Promise<void> => {
    leave();
    const by = AbortSignal.timeout(ABANDON_MS);
    if (await hasBegun(() => inspect(by))) await kill();
  };

  async function begin(): Promise<{ socket: Duplex; notBegun: NotBegun | null }> {
    const start = { hijack: true, Detach: false, Tty: wish.terminal !== null };
    socket = await call(signal, (abortSignal) => exec.start({ ...start, abortSignal }));
    socket.on('error', () => {}); // seen by whoever reads it
    if (!(await hasBegun(() => inspect(signal)))) return { socket, notBegun: await readRefusal(socket, wish) };
    // Engines before 23.0 do not take the size with the rest.
    if (wish.terminal !== null) await resize(signal, wish.terminal).catch(unlessAborted(signal));
    return { socket, notBegun: null };
  }
  const { socket: streamed, notBegun } = await begin().catch((error: unknown) => {
    abandon().catch(() => {});
    return notRunning(error);
  });
  stopping.addEventListener('abort', leave);

  let killed = false;
  const streams = { stdout: new Output(), stderr: new Output() };
  const hasEnded = async (): Promise<boolean> => {
    const seen = await inspect(whileOpen()).catch(() => null);
    return seen !== null && !seen.Running;
  };

  async function toItsEnd(): Promise<number> {
    try {
      if (notBegun !== null) {
        streams[wish.terminal === null ? 'stderr' : 'stdout'].put(Buffer.from(`${notBegun.text}\n`));
        return notBegun.exitCode;
      }
      await carry(streamed, streams, { framed: wish.terminal === null, hasEnded });
      const exitCode = await exitCodeOf(() => inspect(whileOpen()), stopping);
      if (exitCode === KILLED && !killed && !(await outlasted())) throw endedWithIt();
      return exitCode;
    } catch (error) {
      if (isGone(error)) throw (await runsStill()) ? lost(error) : endedWithIt(error);
      throw faultOf(error);
    } finally {
      stopping.removeEventListener('abort', leave);
      streams.stdout.finish();
      streams.stderr.finish();
      stdin.destroy();
      leave();
    }
  }

  /** Whether the container still runs when a command of it has been killed. */
  async function outlasted(): Promise<boolean> {
    for (let look = 0; look < LOOKS_AFTER_KILLED; look++) {
      if (!(await runsStill())) return false;
      await sleep(LOOK_AGAIN_MS, undefined, { signal: stopping });
    }
    return true;
  }

  const stdin = new Writable({
    write: (chunk: Buffer, _encoding, done) => void streamed.write(chunk, done),
    final: (done) => void (wish.terminal === null ? streamed.end(done) : done()),
  });
  stdin.on('error', () => {}); // what the command didn't wait for
  const exited = toItsEnd();
  exited.catch(() => {}); // nobody has to listen
  return {
    stdin,
    ...streams,
    resize: (size) =>
      wish.terminal === null ? Promise.resolve() : resize(whileOpen(), size).catch(unlessEnded(hasEnded)),
    exited,
    async kill(signal = 'KILL') {
      if (signal === 'KILL') killed = true;
      await kill(signal);
    },
  };
}

function requestOf({ command, env, terminal }: ExecRequest): Docker.ExecCreateOptions {
  const never = ['ctrl-@', ...randomBytes(12).toString('hex')].join(',');
  return {
    Cmd: [...command],
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: terminal !== null,
    ...(terminal === null ? {} : { ConsoleSize: [terminal.rows, terminal.columns], DetachKeys: never }),
  };
}

/** Waits until that can be told. */
async function hasBegun(inspect: () => Promise<Docker.ExecInspectInfo>): Promise<boolean> {
  for (let pauseMs = SHORTEST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    const { Pid, ExitCode } = await inspect();
    if (Pid > 0) return true;
    // One that is over in no time may have its exit code before its process.
    if (ExitCode !== null) return (await inspect()).Pid > 0;
    await sleep(pauseMs);
  }
}

interface NotBegun {
  exitCode: 126 | 127;
  text: string;
}

async function readRefusal(socket: Duplex, { command, terminal }: ExecRequest): Promise<NotBegun> {
  const said: Buffer[] = [];
  const take = terminal === null ? makeDemultiplexer((_source, bytes) => said.push(bytes)) : said.push.bind(said);
  for await (const chunk of socket) take(chunk);
  return readNotBegun(Buffer.concat(said).toString('utf8'), command[0] ?? '');
}

/** From what the engine says in place of the command's output. Throws where the command has no part in it. */
export function readNotBegun(said: string, program: string): NotBegun {
  const text = said.trim();
  if (/executable file not found|exec: .*: stat .*: no such file or directory|exec .*: no such file/i.test(text))
    return { exitCode: 127, text: `${program}: not found` };
  const cannot = /permission denied|is a directory|exec format error/i.exec(text)?.[0];
  if (cannot !== undefined) return { exitCode: 126, text: `${program}: ${cannot}` };
  if (/init-p|resource temporarily unavailable/i.test(text)) {
    const room = 'the instance has no room for one more process; end some of those in it';
    throw new EngineFault('no_capacity', room, { retry: true, cause: text });
  }
  throw faultOf({ statusCode: 500, message: text === '' ? 'the command could not be begun' : text });
}

/** To the end of the streams, no faster than they are read. Throws when the connection breaks. */
async function carry(
  socket: Duplex,
  streams: { stdout: Output; stderr: Output },
  { framed, hasEnded }: { framed: boolean; hasEnded: () => Promise<boolean> },
): Promise<void> {
  const put = (source: 'stdout' | 'stderr', bytes: Buffer): void => {
    streams[source].put(isSmallPart(bytes) ? copyOf(bytes) : bytes);
  };
  const take = framed ? makeDemultiplexer(put) : (bytes: Buffer) => put('stdout', bytes);
  let mayWait = true;
  for await (const chunk of socket) {
    take(chunk);
    for (const stream of [streams.stdout, streams.stderr]) {
      while (mayWait && stream.isFull) {
        await stream.roomOrTime(HELD_UP_MS);
        if (stream.isFull && (await hasEnded())) mayWait = false;
      }
    }
  }
}

const isSmallPart = (bytes: Buffer): boolean => bytes.length < bytes.buffer.byteLength / 4;

/** Alone: what comes from Node's pool keeps 8 KiB of that. */
function copyOf(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

/** The end of the streams comes before it; long before, of a command that closed them itself. */
async function exitCodeOf(inspect: () => Promise<Docker.ExecInspectInfo>, stopping: AbortSignal): Promise<number> {
  for (let pauseMs = SHORTEST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    const { Running, ExitCode } = await inspect();
    if (!Running && ExitCode !== null) return ExitCode;
    await sleep(pauseMs, undefined, { signal: stopping });
  }
}

function notRunning(error: unknown): never {
  if (statusOf(error) !== 409) throw faultOf(error);
  throw isPaused(error)
    ? new EngineFault('busy', 'the instance stands still at the moment, as when it is saved', {
        retry: true,
        cause: error,
      })
    : new EngineFault('not_found', 'the instance does not run', { retry: false, cause: error });
}

/** The engine no longer knows the command, or its container. */
const isGone = (error: unknown): boolean => statusOf(error) === 404 || (statusOf(error) === 409 && !isPaused(error));

const isPaused = (error: unknown): boolean => /is paused/i.test(sentenceOf(error));

const endedWithIt = (cause?: unknown): EngineFault =>
  new EngineFault('not_found', 'the instance ended while the command ran', { retry: false, cause });

const lost = (cause: unknown): EngineFault =>
  new EngineFault('unreachable', 'the engine has lost sight of the command', { retry: false, cause });

/** One that has ended already has no terminal to be sized; that shows in its exit code. */
const unlessAborted =
  (signal: AbortSignal) =>
  (error: unknown): void => {
    if (signal.aborted) throw error;
  };

const unlessEnded =
  (hasEnded: () => Promise<boolean>) =>
  async (error: unknown): Promise<void> => {
    if (!isGone(error) && !(await hasEnded())) throw error;
  };

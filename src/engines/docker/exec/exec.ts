/**
 * # Commands with open streams
 *
 * Docker creates an exec object; its start turns the HTTP connection into the command's streams.
 * Gaps this file closes:
 *
 * - **Start failures.** The start answers before the command begins, and a failure arrives as text
 *   on stdout. So the exec is inspected until a process exists; without one the text becomes a
 *   fault, or a shell's 126 or 127 (`exec-start.ts`).
 * - **Process limit.** The runtime applies the limit after the process exists: at the limit a
 *   command mostly starts and can't fork; sometimes the start fails.
 * - **Slow readers.** Docker buffers up to 1 MB per stream, then blocks the command; two seconds
 *   after its end Docker drops unread output. A blocked stream therefore polls for the end, then
 *   reads all the rest: at most 3 MB, kernel and Docker buffers together.
 * - **Detaching.** On a TTY Docker takes end of input as detaching, so stdin's end is not
 *   forwarded, and the detach keys become a sequence that nobody types.
 * - **Memory.** Each read allocates 64 KiB; V8 frees dead buffers at some 64 MB for the whole
 *   process (59 MB with one stream, 73 MB with eight). Small pieces are copied: 1,500 bytes of
 *   waiting stderr had retained 20 MB of stdout.
 * - **Stopped starts.** See `stopped-starts.ts`: root inside can make a start last forever.
 * - **Killing.** See `kill.ts`: Docker has no call.
 */
import type { Duplex, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type Docker from 'dockerode';
import type { ProcessSignal } from '../../../domain/compute/process-signals.ts';
import { raceAbort } from '../../../async/abort.ts';
import type { ExecRequest, ExecResult, OpenExec, TerminalSize } from '../../contract.ts';
import { readProcessId, withProcessId } from '../../process-id.ts';
import type { DockerClient } from '../../../docker/docker-client.ts';
import { faultOf } from '../../../docker/faults.ts';
import { inputOf } from '../../../docker/streams.ts';
import { isSameRun } from '../container/container-calls.ts';
import {
  connectionLost,
  createRequest,
  instanceEnded,
  isExecGone,
  pollPauses,
  readStartFailure,
  startedPid,
  throwNotRunning,
  type StartFailure,
} from './exec-start.ts';
import { signalCommand } from './kill.ts';
import { Output, pump } from './output.ts';
import type { StartedCommand } from './spare-processes.ts';
import { killStoppedStarts } from './stopped-starts.ts';

const ANSWER_MS = 30_000;
const ABANDON_MS = 5_000;
/** More than others are stopped for a head start. */
const STOPPED_MS = 3_000;
const OUTPUT_LIMIT_BYTES = 1024 * 1024;
const KILLED_EXIT_CODE = 137;
/** The end of a container shows a moment after the end of its commands. */
const CHECKS_AFTER_KILLED = 6;
const CHECK_PAUSE_MS = 60;

export interface ExecOptions {
  client: DockerClient;
  info: Pick<Docker.ContainerInspectInfo, 'Id' | 'State'>;
  request: ExecRequest;
  signal: AbortSignal;
  /** Closes the connection of an open command, which goes on. */
  stopping: AbortSignal;
  /** Starts the command with spare processes (`spare-processes.ts`). */
  withSpare?: (start: () => Promise<Session>) => Promise<Session>;
}

interface Session extends StartedCommand {
  session: OpenExec;
}

export async function openExec(options: ExecOptions): Promise<OpenExec> {
  const { withSpare = (start) => start() } = options;
  return (await withSpare(() => openSession(options))).session;
}

async function openSession(options: ExecOptions): Promise<Session> {
  const { client, info, request, signal } = options;
  const container = client.docker.getContainer(info.Id);
  const exec = await client
    .call(signal, (abortSignal) => container.exec({ ...createRequest(sentTo(client, request)), abortSignal }))
    .catch(throwNotRunning);
  const handle = new ExecHandle(options, exec);
  const watch = client.local ? setInterval(() => void killStoppedStarts(info), STOPPED_MS) : undefined;
  const started = await handle
    .start()
    .catch((error: unknown) => {
      handle.abandon().catch(() => {});
      return throwNotRunning(error);
    })
    .finally(() => clearInterval(watch));
  const session = makeSession(handle, started, options);
  if (!client.local && started.failure === null) {
    const channel = request.terminal === null ? session.stderr : session.stdout;
    handle.pidInside = await raceAbort(readProcessId(channel), signal);
  }
  return { session, exited: session.exited, hostPid: started.hostPid };
}

/** On another host no process id that Docker reports can be translated here. */
const sentTo = ({ local }: DockerClient, request: ExecRequest): ExecRequest =>
  local ? request : { ...request, command: withProcessId(request), env: {} };

/** An abort drops the answer; the command goes on inside. */
export async function runCommand({
  command,
  ...options
}: Omit<ExecOptions, 'request' | 'stopping'> & { command: readonly string[] }): Promise<ExecResult> {
  const request = { command, env: {}, terminal: null };
  const exec = await openExec({ ...options, request, stopping: options.signal });
  exec.stdin.end();
  const [stdout, stderr] = await Promise.all([readStart(exec.stdout), readStart(exec.stderr)]);
  return { exitCode: await exec.exited, stdout, stderr };
}

async function readStart(stream: Readable): Promise<string> {
  const parts: Buffer[] = [];
  let remaining = OUTPUT_LIMIT_BYTES;
  for await (const chunk of stream) {
    const part = Buffer.from(chunk).subarray(0, remaining);
    remaining -= part.length;
    if (part.length > 0) parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

interface Started {
  socket: Duplex;
  hostPid: number;
  failure: StartFailure | null;
}

class ExecHandle {
  readonly #options: ExecOptions;
  readonly #exec: Docker.Exec;
  #socket: Duplex | undefined;
  pidInside: number | null = null;

  constructor(options: ExecOptions, exec: Docker.Exec) {
    this.#options = options;
    this.#exec = exec;
  }

  #deadline(): AbortSignal {
    return AbortSignal.any([this.#options.stopping, AbortSignal.timeout(ANSWER_MS)]);
  }

  inspect(signal = this.#deadline()): Promise<Docker.ExecInspectInfo> {
    return this.#options.client.call(signal, (abortSignal) => this.#exec.inspect({ abortSignal }));
  }

  async resize({ columns: w, rows: h }: TerminalSize, signal = this.#deadline()): Promise<void> {
    await this.#options.client.call(signal, (abortSignal) => this.#exec.resize({ h, w, abortSignal }));
  }

  async start(): Promise<Started> {
    const { client, request, signal } = this.#options;
    const start = { hijack: true, Detach: false, Tty: request.terminal !== null };
    const socket = await client.call(signal, (abortSignal) => this.#exec.start({ ...start, abortSignal }));
    this.#socket = socket;
    socket.on('error', () => {}); // the reader sees the error
    const hostPid = await startedPid(() => this.inspect(signal));
    if (hostPid === 0) return { socket, hostPid, failure: await readStartFailure(socket, request) };
    if (request.terminal !== null) {
      // Engines before 23.0 ignore the size in the create request.
      await this.resize(request.terminal, signal).catch((error: unknown) => {
        if (signal.aborted) throw error; // a command that has ended shows in its exit code
      });
    }
    return { socket, hostPid, failure: null };
  }

  disconnect(): void {
    this.#socket?.destroy();
  }

  async abandon(): Promise<void> {
    this.disconnect();
    const { client, info } = this.#options;
    if (client.local) await killStoppedStarts(info);
    const signal = AbortSignal.timeout(ABANDON_MS);
    if ((await startedPid(() => this.inspect(signal))) > 0) await this.kill();
  }

  async hasEnded(): Promise<boolean> {
    const info = await this.inspect().catch(() => null);
    return info !== null && !info.Running;
  }

  isSameRun(): Promise<boolean> {
    return isSameRun(this.#options.client, this.#options.info, this.#deadline());
  }

  async kill(signal: ProcessSignal = 'KILL'): Promise<void> {
    const { client, info } = this.#options;
    const run = (command: readonly string[]) => this.#run(command);
    try {
      const { Running, Pid } = await this.inspect();
      if (Running)
        await signalCommand(
          signal,
          { containerId: info.Id, hostPid: client.local ? Pid : null, knownPid: this.pidInside },
          run,
        );
    } catch (error) {
      if (isExecGone(error)) return;
      if ((await this.inspect()).Running && (await this.isSameRun())) throw error;
    }
  }

  async #run(command: readonly string[]): Promise<{ exitCode: number; errors: string }> {
    const request = { command, env: {}, terminal: null };
    const { stdout, stderr, exited } = await openExec({ ...this.#options, request, signal: this.#deadline() });
    stdout.resume();
    return { errors: await text(stderr), exitCode: await exited };
  }
}

function makeSession(
  handle: ExecHandle,
  { socket, failure }: Started,
  { request: { terminal }, stopping }: ExecOptions,
): OpenExec {
  const disconnect = (): void => handle.disconnect();
  stopping.addEventListener('abort', disconnect);
  let killed = false;
  const streams = { stdout: new Output(), stderr: new Output() };
  const hasEnded = (): Promise<boolean> => handle.hasEnded();

  async function runToEnd(): Promise<number> {
    try {
      if (failure !== null) {
        streams[terminal === null ? 'stderr' : 'stdout'].put(Buffer.from(`${failure.text}\n`));
        return failure.exitCode;
      }
      await pump(socket, streams, { framed: terminal === null, hasEnded });
      const exitCode = await waitForExitCode(handle, stopping);
      if (exitCode === KILLED_EXIT_CODE && !killed && !(await survived())) throw instanceEnded();
      return exitCode;
    } catch (error) {
      if (isExecGone(error)) throw (await handle.isSameRun()) ? connectionLost(error) : instanceEnded(error);
      throw faultOf(error);
    } finally {
      stopping.removeEventListener('abort', disconnect);
      streams.stdout.finish();
      streams.stderr.finish();
      stdin.destroy();
      disconnect();
    }
  }

  async function survived(): Promise<boolean> {
    for (let check = 0; check < CHECKS_AFTER_KILLED; check++) {
      if (!(await handle.isSameRun())) return false;
      await sleep(CHECK_PAUSE_MS, undefined, { signal: stopping });
    }
    return true;
  }

  const stdin = inputOf(socket, { ends: terminal === null });
  const exited = runToEnd();
  exited.catch(() => {});
  return {
    stdin,
    ...streams,
    async resize(size) {
      if (terminal === null) return;
      await handle.resize(size).catch(async (error: unknown) => {
        if (!isExecGone(error) && !(await hasEnded())) throw error;
      });
    },
    exited,
    async kill(signal = 'KILL') {
      if (signal === 'KILL') killed = true;
      await handle.kill(signal);
    },
  };
}

/** The streams end before the exit code is known; long before when the command closed them. */
async function waitForExitCode(handle: ExecHandle, stopping: AbortSignal): Promise<number> {
  const pauses = pollPauses();
  for (;;) {
    const { Running, ExitCode } = await handle.inspect();
    if (!Running && ExitCode !== null) return ExitCode;
    await sleep(pauses.next().value, undefined, { signal: stopping });
  }
}

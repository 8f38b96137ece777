import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type Docker from 'dockerode';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { ExecRequest } from '../../contract.ts';
import { faultOf, sentenceOf, statusOf } from '../../../docker/faults.ts';
import { makeDemultiplexer } from '../../../docker/streams.ts';

const FIRST_PAUSE_MS = 5;
const MAX_PAUSE_MS = 1_000;

export interface StartFailure {
  exitCode: 126 | 127;
  text: string;
}

/** Milliseconds between polls, doubling without end. */
export function* pollPauses(): Generator<number, never> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) yield pauseMs;
}

export function createRequest({ command, env, terminal }: ExecRequest): Docker.ExecCreateOptions {
  const neverTyped = ['ctrl-@', ...randomBytes(12).toString('hex')].join(',');
  return {
    Cmd: [...command],
    User: '0',
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: terminal !== null,
    ...(terminal === null ? {} : { ConsoleSize: [terminal.rows, terminal.columns], DetachKeys: neverTyped }),
  };
}

/** Process id on the engine's host; 0 when the command could not be started. */
export async function startedPid(inspect: () => Promise<Docker.ExecInspectInfo>): Promise<number> {
  const pauses = pollPauses();
  for (;;) {
    const { Pid, ExitCode } = await inspect();
    if (Pid > 0) return Pid;
    // A very short command may report the exit code before the process.
    if (ExitCode !== null) return (await inspect()).Pid;
    await sleep(pauses.next().value);
  }
}

export async function readStartFailure(socket: Duplex, { command, terminal }: ExecRequest): Promise<StartFailure> {
  const output: Buffer[] = [];
  const take = terminal === null ? makeDemultiplexer((_source, bytes) => output.push(bytes)) : output.push.bind(output);
  for await (const chunk of socket) take(chunk);
  return parseStartFailure(Buffer.concat(output).toString('utf8'), command[0] ?? '');
}

export function parseStartFailure(output: string, program: string): StartFailure {
  const text = output.trim();
  if (/executable file not found|exec: .*: stat .*: no such file or directory|exec .*: no such file/i.test(text))
    return { exitCode: 127, text: `${program}: not found` };
  const reason = /permission denied|is a directory|exec format error/i.exec(text)?.[0];
  if (reason !== undefined) return { exitCode: 126, text: `${program}: ${reason}` };
  if (/init-p|procready|resource temporarily unavailable/i.test(text)) {
    const limit =
      'the instance has reached its limit of processes; end programs in an open terminal or notebook, or restart the instance';
    throw new EngineFault('no_capacity', limit, { retry: true, cause: text });
  }
  throw faultOf({ statusCode: 500, message: text === '' ? 'the command could not be started' : text });
}

export function throwNotRunning(error: unknown): never {
  if (statusOf(error) !== 409) throw faultOf(error);
  throw isPaused(error)
    ? new EngineFault('busy', 'the instance is paused at the moment, for example while it is saved', {
        retry: true,
        cause: error,
      })
    : new EngineFault('not_found', 'the instance is not running', { retry: false, cause: error });
}

export const isExecGone = (error: unknown): boolean =>
  statusOf(error) === 404 || (statusOf(error) === 409 && !isPaused(error));

const isPaused = (error: unknown): boolean => /is paused/i.test(sentenceOf(error));

export const instanceEnded = (cause?: unknown): EngineFault =>
  new EngineFault('not_found', 'the instance ended while the command ran', { retry: false, cause });

export const connectionLost = (cause: unknown): EngineFault =>
  new EngineFault('unreachable', 'the engine no longer tracks the command', { retry: false, cause });

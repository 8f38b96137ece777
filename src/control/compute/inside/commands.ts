/** Commands inside the caller's instance. A running command counts as use. */
import type { Readable } from 'node:stream';
import { onAbort } from '../../../async/abort.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import type { Engine, OpenExec, TerminalSize } from '../../../engines/contract.ts';
import type { Store } from '../../../store/store.ts';
import type { Variables } from '../instances/environment.ts';
import { refusalOfFault, requireRunning } from './require-instance.ts';
import { makeConcurrencyLimit, type Time, type Caller } from '../../kernel/ports.ts';
import type { Forwarding } from '../../access/ports.ts';

const LIMITS = { perAccount: 16, total: 256, share: 2, retryAfterS: 2 };
const OPEN_MS = 30_000;
const END_MS = 15_000;
const FIRST_BYTES = 16 * 1024;
/** Discarded output is still read, or the command would block; the rate bounds its cost. */
const DROPPED_BYTES_PER_MS = 4 * 1024;

export interface CommandRequest {
  instanceId: string;
  command: readonly string[];
  env: readonly string[];
}

export interface CapturedOutput {
  bytes: Buffer;
  cut: boolean;
}

export interface CommandResult {
  exitCode: number;
  stdout: CapturedOutput;
  stderr: CapturedOutput;
  timedOut: boolean;
}

export interface Commands {
  /** Kills the command at its limit, and rejects when `gone` fires. */
  run(
    caller: Caller,
    request: CommandRequest & { stdin: Uint8Array; limitMs: number; maxOutputBytes: number },
    gone: AbortSignal,
  ): Promise<CommandResult>;
  check(caller: Caller, instanceId: string): Promise<void>;
  /** The signal ends only the opening. The command counts as running until it exits. */
  open(
    caller: Caller,
    request: CommandRequest & { terminal: TerminalSize | null },
    gone: AbortSignal,
  ): Promise<OpenExec>;
}

interface Deps {
  store: Pick<Store, 'read'>;
  openExec: Engine['openExec'];
  beginTraffic: Forwarding['beginTraffic'];
  time: Pick<Time, 'deadline' | 'after'>;
  variables: Pick<Variables, 'environmentOf'>;
}

export function makeCommands({ store, openExec, beginTraffic, time, variables }: Deps): Commands {
  const limit = makeConcurrencyLimit({
    ...LIMITS,
    full: {
      mine: (count) => `${count} of your commands are running, the limit; wait until one ends`,
      all: (count) => `${count} commands are running on this server, the limit; try again later`,
    },
  });

  const open: Commands['open'] = async (caller, { instanceId: asked, command, env, terminal }, gone) => {
    const instance = await requireRunning(store, caller, asked);
    const { id: instanceId } = instance;
    const leaveLimit = limit.acquire(caller.accountId);
    const endTraffic = beginTraffic(instanceId, 'use');
    const release = (): void => {
      leaveLimit();
      endTraffic();
    };
    try {
      const signal = AbortSignal.any([gone, time.deadline(OPEN_MS)]);
      const running = await openExec(
        instanceId,
        {
          command,
          env: {
            ...Object.fromEntries(await variables.environmentOf(store.read, instance)),
            ...envOf(env),
          },
          terminal,
        },
        signal,
      );
      running.exited.then(release, release);
      return running;
    } catch (error) {
      release();
      throw refusalOfFault(error);
    }
  };

  return {
    open,
    async check(caller, instanceId) {
      await requireRunning(store, caller, instanceId);
    },
    async run(caller, { stdin, limitMs, maxOutputBytes, ...request }, gone) {
      const running = await open(caller, { ...request, terminal: null }, gone);
      const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
      let timedOut = false;
      const cancelTimeout = time.after(limitMs, () => {
        timedOut = true;
        stop();
      });
      const unsubscribe = onAbort(gone, stop);
      const stdout = captureOutput(running.stdout, maxOutputBytes, time);
      const stderr = captureOutput(running.stderr, maxOutputBytes, time);
      running.stdin.end(stdin);
      const killed = stopped.then(() => kill(running, time));
      try {
        const exitCode = await Promise.race([running.exited, killed]);
        gone.throwIfAborted();
        return { exitCode, stdout: await stdout, stderr: await stderr, timedOut };
      } catch (error) {
        throw refusalOfFault(error);
      } finally {
        // A pending timer or listener would retain the output.
        cancelTimeout();
        unsubscribe();
      }
    },
  };
}

async function kill(running: OpenExec, time: Pick<Time, 'after'>): Promise<number> {
  await running.kill();
  const { promise: tooLong, reject } = Promise.withResolvers<never>();
  const cancelTimeout = time.after(END_MS, () =>
    reject(new Refusal('unavailable', 'the command was killed at its time limit, but has not ended')),
  );
  return Promise.race([running.exited, tooLong]).finally(cancelTimeout);
}

const envOf = (lines: readonly string[]): Record<string, string> =>
  Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));

function captureOutput(stream: Readable, maxBytes: number, time: Pick<Time, 'after'>): Promise<CapturedOutput> {
  let buffer = Buffer.alloc(Math.min(maxBytes, FIRST_BYTES));
  let bytes = 0;
  let cut = false;
  stream.on('error', () => {});
  stream.on('data', (chunk: Buffer) => {
    const piece = chunk.subarray(0, maxBytes - bytes);
    cut ||= piece.length < chunk.length;
    if (bytes + piece.length > buffer.length) {
      const larger = Buffer.alloc(Math.min(maxBytes, Math.max(2 * buffer.length, bytes + piece.length)));
      buffer.copy(larger, 0, 0, bytes);
      buffer = larger;
    }
    buffer.set(piece, bytes);
    bytes += piece.length;
    if (!cut) return;
    stream.pause();
    time.after(chunk.length / DROPPED_BYTES_PER_MS, () => stream.resume());
  });
  return new Promise((resolve) => stream.once('close', () => resolve({ bytes: buffer.subarray(0, bytes), cut })));
}

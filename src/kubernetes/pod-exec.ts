/**
 * # Commands in a Pod
 *
 * Channels: 0 input, 1 output, 2 errors, 3 the final status, 4 sizes of the terminal. Version 5 can
 * close the input, version 4 can't. The server can neither set the environment nor kill a command.
 * A command with input ends after its input (`held-command.ts`), except in a terminal.
 */
import { randomBytes } from 'node:crypto';
import { Writable, type Readable } from 'node:stream';
import { z } from 'zod';
import { ApiError, errorOfAnswer } from './api-error.ts';
import { pathOf, resources } from './api-resources.ts';
import { ChannelOutput } from './channel-output.ts';
import { openChannels, type ChannelReceiver, type ChannelSocket } from './channel-socket.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { heldCommand, MarkedErrors } from './held-command.ts';

export interface PodExecRequest {
  container: string;
  /** With input and without a terminal: the parent is a shell of ours, which leads the group. */
  command: readonly string[];
  stdin?: boolean;
  terminal?: { columns: number; rows: number } | null;
  /** Reads all output until `limitOutput`: one stream must not keep back the other. */
  unlimited?: boolean;
}

export interface PodExec {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  resize(size: { columns: number; rows: number }): Promise<void>;
  /**
   * Exit code, once all output is in the streams. Rejects with an `ApiError`: `away` when the
   * connection was lost, otherwise the reason that no command ran. May be left unhandled.
   */
  exited: Promise<number>;
  /** Bounds unread output from now on, if the request held that back. */
  limitOutput(): void;
  /** Leaves the command, which may go on. */
  close(): void;
}

/** Parts that all streams of a cluster share. */
export interface StreamContext {
  connection: ClusterConnection;
  namespace: string;
  stopping: AbortSignal;
}

const MARK_BYTES = 12;
const PROTOCOLS = ['v5.channel.k8s.io', 'v4.channel.k8s.io'];
const [STDIN, STDOUT, STDERR, STATUS, RESIZE] = [0, 1, 2, 3, 4] as const;

/** The signal ends the opening only. */
export async function openPodExec(
  { connection, namespace, stopping }: StreamContext,
  pod: string,
  { container, command, stdin: hasInput = true, terminal = null, unlimited = false }: PodExecRequest,
  signal: AbortSignal,
): Promise<PodExec> {
  const flags = { stdin: hasInput, stdout: true, stderr: terminal === null, tty: terminal !== null };
  const mark = hasInput && terminal === null ? randomBytes(MARK_BYTES).toString('hex') : null;
  const words = mark === null ? command : heldCommand(mark, command);
  const query: [string, string][] = [
    ['container', container],
    ...Object.entries(flags).map(([name, value]): [string, string] => [name, String(value)]),
    ...words.map((word): [string, string] => ['command', word]),
  ];
  const path = pathOf(resources.pods, namespace, pod, 'exec');
  const exit = Promise.withResolvers<number>();
  exit.promise.catch(() => {});
  let streams: CommandStreams | undefined;
  const socket = await openChannels(
    { connection, path, query, protocols: PROTOCOLS, signal, stopping },
    (opened) => (streams = new CommandStreams(opened, { mark, unlimited }, exit)),
  );
  if (streams === undefined) throw new Error('an open socket has a receiver');
  const resize = async ({ columns, rows }: { columns: number; rows: number }): Promise<void> => {
    if (terminal === null) return;
    await socket.send(RESIZE, Buffer.from(JSON.stringify({ Width: columns, Height: rows }))).catch(() => {});
  };
  if (terminal !== null) await resize(terminal);
  const limitOutput = (): void => streams?.limit();
  return { ...streams.ends, resize, exited: exit.promise, limitOutput, close: () => socket.close() };
}

class CommandStreams implements ChannelReceiver {
  readonly ends: Pick<PodExec, 'stdin' | 'stdout' | 'stderr'>;
  readonly #outputs: { stdout: ChannelOutput; stderr: ChannelOutput };
  readonly #errors: Pick<ChannelOutput, 'put' | 'finish'>;
  readonly #exit: PromiseWithResolvers<number>;
  readonly #socket: ChannelSocket;
  readonly #mark: string | null;
  #isUnlimited: boolean;
  #hasInputEnded = false;
  #status: Buffer | undefined;

  constructor(
    socket: ChannelSocket,
    { mark, unlimited }: { mark: string | null; unlimited: boolean },
    exit: PromiseWithResolvers<number>,
  ) {
    this.#socket = socket;
    this.#exit = exit;
    this.#mark = mark;
    this.#isUnlimited = unlimited;
    const onChange = (): void => this.#flow();
    const stderr = new ChannelOutput(onChange);
    this.#outputs = { stdout: new ChannelOutput(onChange), stderr };
    this.#errors = mark === null ? stderr : new MarkedErrors(mark, stderr, () => this.#release(mark));
    const stdin = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        // After the end of the command there is nobody to read it.
        if (this.#hasInputEnded) return done();
        socket.send(STDIN, chunk).then(() => done(), done);
      },
      final: (done) => {
        done();
        // The end of a terminal's input is a key.
        if (this.#mark !== null) this.#endInput();
      },
    });
    stdin.on('error', () => {}); // input after the end of the command
    this.ends = { stdin, ...this.#outputs };
  }

  limit(): void {
    this.#isUnlimited = false;
    this.#flow();
  }

  #flow(): void {
    const { stdout, stderr } = this.#outputs;
    if ((stdout.isFull || stderr.isFull) && !this.#isUnlimited) this.#socket.pause();
    else this.#socket.resume();
  }

  /** False: version 4 has no end of input. */
  #endInput(): boolean {
    if (this.#hasInputEnded) return true;
    this.#hasInputEnded = this.#socket.closeChannel(STDIN);
    return this.#hasInputEnded;
  }

  /** The command has ended, and waits for the end of its input. */
  #release(mark: string): void {
    if (this.#endInput()) return;
    this.#hasInputEnded = true;
    this.#socket.send(STDIN, Buffer.from(`\n${mark}\n`)).catch(() => {});
  }

  onMessage(channel: number, bytes: Buffer): void {
    if (channel === STDOUT) this.#outputs.stdout.put(bytes);
    else if (channel === STDERR) this.#errors.put(bytes);
    else if (channel === STATUS) this.#status = Buffer.concat([this.#status ?? Buffer.alloc(0), bytes]);
  }

  onClosed(error: ApiError | undefined): void {
    this.#outputs.stdout.finish();
    this.#errors.finish();
    this.ends.stdin.destroy();
    if (this.#status === undefined) {
      this.#exit.reject(error ?? new ApiError('away', 'the connection of the command was closed before its end'));
      return;
    }
    try {
      this.#exit.resolve(exitCodeOf(this.#status.toString()));
    } catch (thrown) {
      this.#exit.reject(thrown);
    }
  }
}

const execStatus = z.object({
  status: z.string(),
  reason: z.string().optional(),
  message: z.string().optional(),
  code: z.number().optional(),
  details: z
    .object({ causes: z.array(z.object({ reason: z.string().optional(), message: z.string().optional() })).optional() })
    .optional(),
});

/** Throws an `ApiError` if the status reports no command. */
export function exitCodeOf(body: string): number {
  const status = execStatus.parse(JSON.parse(body));
  if (status.status === 'Success') return 0;
  const cause = status.details?.causes?.find(({ reason }) => reason === 'ExitCode');
  if (cause?.message !== undefined) return Number(cause.message);
  throw errorOfAnswer({
    httpStatus: status.code ?? 500,
    body: JSON.stringify({ kind: 'Status', ...status }),
    request: 'exec',
  });
}

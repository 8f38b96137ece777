/**
 * # Commands in a Pod
 *
 * Channels: 0 input, 1 output, 2 errors, 3 the final status, 4 sizes of the terminal. Version 5 can
 * close the input, version 4 can't. The server can neither set the environment nor kill a command.
 */
import { Writable, type Readable } from 'node:stream';
import { z } from 'zod';
import { ApiError, errorOfAnswer } from './api-error.ts';
import { pathOf, resources } from './api-resources.ts';
import { ChannelOutput } from './channel-output.ts';
import { openChannels, type ChannelReceiver, type ChannelSocket } from './channel-socket.ts';
import type { ClusterConnection } from './cluster-connection.ts';

export interface PodExecRequest {
  container: string;
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

/**
 * Silence before the end of input, until which output is read ahead. Servers of version 1.36 cut
 * the connection, unread output and exit code included, when input comes after a command's end.
 */
const END_OF_INPUT_MS = 60;
const READ_AHEAD_BYTES = 8 * 1024 * 1024;
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
  const query: [string, string][] = [
    ['container', container],
    ...Object.entries(flags).map(([name, value]): [string, string] => [name, String(value)]),
    ...command.map((word): [string, string] => ['command', word]),
  ];
  const path = pathOf(resources.pods, namespace, pod, 'exec');
  const exit = Promise.withResolvers<number>();
  exit.promise.catch(() => {});
  let streams: CommandStreams | undefined;
  const socket = await openChannels(
    { connection, path, query, protocols: PROTOCOLS, signal, stopping },
    (opened) => (streams = new CommandStreams(opened, { endsInput: terminal === null, unlimited }, exit)),
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
  readonly #exit: PromiseWithResolvers<number>;
  readonly #socket: ChannelSocket;
  #isUnlimited: boolean;
  #readsAhead = false;
  #isClosed = false;
  #received = 0;
  #status: Buffer | undefined;

  constructor(
    socket: ChannelSocket,
    { endsInput, unlimited }: { endsInput: boolean; unlimited: boolean },
    exit: PromiseWithResolvers<number>,
  ) {
    this.#socket = socket;
    this.#exit = exit;
    this.#isUnlimited = unlimited;
    const onChange = (): void => this.#flow();
    this.#outputs = { stdout: new ChannelOutput(onChange), stderr: new ChannelOutput(onChange) };
    const stdin = new Writable({
      write: (chunk: Buffer, _encoding, done) => void socket.send(STDIN, chunk).then(() => done(), done),
      final: (done) => {
        done();
        // The end of a terminal's input is a key.
        if (endsInput) this.#endInput();
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
    const mayRead = this.#isUnlimited || (this.#readsAhead && this.#unread < READ_AHEAD_BYTES);
    if ((stdout.isFull || stderr.isFull) && !mayRead) this.#socket.pause();
    else this.#socket.resume();
  }

  #endInput(): void {
    this.#readsAhead = true;
    this.#flow();
    const began = this.#received;
    setTimeout(() => {
      if (this.#isClosed) return;
      // Output of a command that has ended may still arrive.
      if (this.#received > began && this.#unread < READ_AHEAD_BYTES) return this.#endInput();
      this.#readsAhead = false;
      if (this.#status === undefined) this.#socket.closeChannel(STDIN);
      this.#flow();
    }, END_OF_INPUT_MS);
  }

  get #unread(): number {
    return this.#outputs.stdout.readableLength + this.#outputs.stderr.readableLength;
  }

  onMessage(channel: number, bytes: Buffer): void {
    this.#received += bytes.length;
    if (channel === STDOUT) this.#outputs.stdout.put(bytes);
    else if (channel === STDERR) this.#outputs.stderr.put(bytes);
    else if (channel === STATUS) this.#status = Buffer.concat([this.#status ?? Buffer.alloc(0), bytes]);
  }

  onClosed(error: ApiError | undefined): void {
    this.#isClosed = true;
    const { stdout, stderr } = this.#outputs;
    stdout.finish();
    stderr.finish();
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

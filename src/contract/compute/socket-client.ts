/** WebSocket part of the client: command streams and terminals (docs/reference/terminal.md). */
import type { z } from 'zod';
import type { ProcessSignal } from '../../domain/compute/process-signals.ts';
import {
  channels,
  execRoutes,
  exitMessage,
  terminalRoutes,
  terminalServerMessage,
  type execQuery,
  type terminalQuery,
  type terminalSize,
} from './exec.ts';

export type Size = z.output<typeof terminalSize>;
type Bytes = Uint8Array<ArrayBuffer>;

/** Close before the end of the command or terminal (`closeCodes`). */
export class SocketClosed extends Error {
  override readonly name = 'SocketClosed';
  readonly code: number;

  constructor(code: number, why: string) {
    super(why === '' ? `the connection was closed (${code})` : why);
    this.code = code;
  }
}

/** A WebSocket has no backpressure: unread output is buffered here. */
export interface ExecStreams {
  stdout: ReadableStream<Bytes>;
  stderr: ReadableStream<Bytes>;
  /** Resolves once at most 1 MiB waits to be sent. */
  write(bytes: Bytes): Promise<void>;
  end(): void;
  resize(size: Size): void;
  signal(name: ProcessSignal): void;
  /** Exit code of the command. Rejects with a `SocketClosed`. */
  exited: Promise<number>;
  close(): void;
}

export interface TerminalViewer extends Omit<z.output<Attached>, 'type'> {
  /** After `onReset` the scrollback follows: clear the screen first. */
  shown: ReadableStream<Bytes>;
  write(bytes: Bytes): Promise<void>;
  resize(size: Size): void;
  /** Exit code of the shell. Rejects with a `SocketClosed`, code 1000 after `leave`. */
  ended: Promise<number>;
  /** Disconnects the viewer. The terminal keeps running. */
  leave(): void;
}
type Attached = (typeof terminalServerMessage)['options'][0];

export interface ViewerOptions {
  onSize?: (size: Size) => void;
  /** Clears the screen; the scrollback follows. */
  onReset?: () => void;
}

export interface SocketCalls {
  /** Runs a command with open streams. Throws the refusal. */
  openExec(query: z.input<typeof execQuery>): Promise<ExecStreams>;
  /** Attaches to a terminal, created if missing. */
  openTerminal(query: z.input<typeof terminalQuery>, options?: ViewerOptions): Promise<TerminalViewer>;
}

/** Constructor of browsers and of Node. */
export type OpenWebSocket = (url: string, protocol: string) => WebSocket;

const MAX_BUFFERED_BYTES = 1024 * 1024;
const BUFFER_POLL_MS = 10;

/** `refusal` throws the cause of a failed handshake, which a WebSocket hides. */
export function socketCalls(connect: OpenWebSocket, refusal: (path: string) => Promise<never>): SocketCalls {
  async function open(path: string, protocol: string, take: (data: Bytes | string) => void): Promise<WebSocket> {
    const socket = connect(path, protocol);
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('message', (event) => {
      const data: unknown = event.data;
      if (typeof data === 'string') take(data);
      else if (data instanceof ArrayBuffer) take(new Uint8Array(data));
    });
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.addEventListener('open', () => resolve(true));
      socket.addEventListener('close', () => resolve(false));
      socket.addEventListener('error', () => resolve(false));
    });
    return isOpen ? socket : refusal(path);
  }

  return {
    async openExec(query) {
      const outputs = { [channels.stdout]: makeOutput(), [channels.stderr]: makeOutput() };
      const { promise: exited, resolve, reject } = Promise.withResolvers<number>();
      exited.catch(() => {}); // nobody has to listen
      const socket = await open(pathOf(execRoutes.openExec.path, query), execRoutes.openExec.protocol, (data) => {
        if (typeof data === 'string') return;
        const [channel] = data;
        const rest = data.subarray(1);
        if (channel === channels.stdout || channel === channels.stderr) outputs[channel].put(rest);
        else if (channel === channels.exit) resolve(exitMessage.parse(JSON.parse(textOf(rest))).exitCode);
      });
      onClosed(socket, (closed) => {
        for (const output of Object.values(outputs)) output.end();
        reject(closed);
      });
      const send = (channel: number, bytes: Bytes): void => sendTo(socket, joined(channel, bytes));
      const sendJson = (channel: number, message: object): void => send(channel, bytesOf(JSON.stringify(message)));
      return {
        stdout: outputs[channels.stdout].stream,
        stderr: outputs[channels.stderr].stream,
        async write(bytes) {
          for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
            send(channels.stdin, bytes.subarray(at, at + PIECE_BYTES));
            await waitForBufferSpace(socket);
          }
        },
        end: () => send(channels.stdin, new Uint8Array()),
        resize: (size) => sendJson(channels.resize, size),
        signal: (name) => sendJson(channels.signal, { signal: name }),
        exited,
        close: () => socket.close(),
      };
    },
    async openTerminal(query, { onSize = () => {}, onReset = () => {} } = {}) {
      const output = makeOutput();
      const { promise: first, resolve: attach, reject: fail } = Promise.withResolvers<z.output<Attached>>();
      const { promise: ended, resolve, reject } = Promise.withResolvers<number>();
      for (const one of [first, ended]) one.catch(() => {});
      const socket = await open(
        pathOf(terminalRoutes.openTerminal.path, query),
        terminalRoutes.openTerminal.protocol,
        (data) => {
          if (typeof data !== 'string') return output.put(data);
          const serverMessage = terminalServerMessage.parse(JSON.parse(data));
          if (serverMessage.type === 'attached') attach(serverMessage);
          else if (serverMessage.type === 'size') onSize({ columns: serverMessage.columns, rows: serverMessage.rows });
          else if (serverMessage.type === 'reset') onReset();
          else resolve(serverMessage.exitCode);
        },
      );
      onClosed(socket, (closed) => {
        output.end();
        fail(closed);
        reject(closed);
      });
      const { type: _, ...attached } = await first;
      return {
        ...attached,
        shown: output.stream,
        async write(bytes) {
          for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
            sendTo(socket, bytes.subarray(at, at + PIECE_BYTES));
            await waitForBufferSpace(socket);
          }
        },
        resize: (size) => sendTo(socket, JSON.stringify({ type: 'resize', ...size })),
        ended,
        leave: () => socket.close(1000),
      };
    },
  };
}

/** Well below the longest message that the server takes. */
const PIECE_BYTES = 64 * 1024;

function makeOutput(): { stream: ReadableStream<Bytes>; put: (bytes: Bytes) => void; end: () => void } {
  let controller: ReadableStreamDefaultController<Bytes> | null = null;
  const stream = new ReadableStream<Bytes>({
    start: (given) => void (controller = given),
    cancel: () => void (controller = null),
  });
  return {
    stream,
    put: (bytes) => controller?.enqueue(bytes),
    end() {
      controller?.close();
      controller = null;
    },
  };
}

function onClosed(socket: WebSocket, fn: (closed: SocketClosed) => void): void {
  socket.addEventListener('close', ({ code, reason }: CloseEvent) => fn(new SocketClosed(code, reason)));
}

/** Drops data after the close. */
function sendTo(socket: WebSocket, data: Bytes | string): void {
  if (socket.readyState === socket.OPEN) socket.send(data);
}

async function waitForBufferSpace(socket: WebSocket): Promise<void> {
  while (socket.readyState === socket.OPEN && socket.bufferedAmount > MAX_BUFFERED_BYTES)
    await new Promise((resolve) => setTimeout(resolve, BUFFER_POLL_MS));
}

function joined(channel: number, bytes: Bytes): Bytes {
  const message = new Uint8Array(1 + bytes.length);
  message[0] = channel;
  message.set(bytes, 1);
  return message;
}

const textOf = (bytes: Bytes): string => new TextDecoder().decode(bytes);
const bytesOf = (text: string): Bytes => new TextEncoder().encode(text);

function pathOf(path: string, query: object): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) search.append(name, String(one));
  }
  return `${path}?${search}`;
}

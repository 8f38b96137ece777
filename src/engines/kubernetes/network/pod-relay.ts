/**
 * Berth's end of a relay (`relay-program.mjs`) in a Pod: starts it by exec, sends it its program,
 * and opens connections and listeners by it. Ends when the relay does not answer.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Duplex } from 'node:stream';
import { z } from 'zod';
import { onAbort, raceAbort } from '../../../async/abort.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { PodExec, PodExecRequest } from '../../../kubernetes/pod-exec.ts';
import type { InstanceAddress } from '../../contract.ts';
import { openingFault, runEnded, tooManyConnections } from '../../network-faults.ts';
import { faultOf } from '../cluster-faults.ts';
import { Multiplexer } from './multiplexer.mjs';

const START_MS = 20_000;
const PING_MS = 15_000;
/** Each end leaves when it missed so many. */
const MISSED_PINGS = 3;
/** Streams and requests. */
const MAX_OPEN = 1_024;
const ERROR_TEXT_BYTES = 2_000;

/** Reads the program from its input, as JSON after its length. */
const BOOTSTRAP = `const { stdin } = process;
let all = Buffer.alloc(0);
stdin.on('data', function take(bytes) {
  all = Buffer.concat([all, bytes]);
  if (all.length < 4 || all.length < 4 + all.readUInt32BE(0)) return;
  stdin.off('data', take).pause();
  const load = (text) => import('data:text/javascript;base64,' + Buffer.from(text).toString('base64'));
  const { sources, silentMs } = JSON.parse(all.toString('utf8', 4));
  Promise.all(sources.map(load)).then(([protocol, relay]) => relay.serve(protocol, silentMs));
});`;

/** The instance's memory limit counts the relay, too: a small young generation. */
const command = ['node', '--max-semi-space-size=1', '--max-old-space-size=64', '-e', BOOTSTRAP];
export const relayExec = (container: string): PodExecRequest => ({ container, command, stdin: true });

const relayMessage = z.union([
  z.object({ ready: z.string() }),
  z.object({ pong: z.number() }),
  z.object({ connected: z.number() }),
  z.object({ listening: z.number(), port: z.number() }),
  z.object({ refused: z.number(), code: z.string(), text: z.string() }),
  z.object({
    accepted: z.number(),
    listener: z.number(),
    remoteAddress: z.string().optional(),
    remotePort: z.number().optional(),
    localAddress: z.string().optional(),
    localPort: z.number().optional(),
  }),
]);
type RelayMessage = z.infer<typeof relayMessage>;
type Accepted = Extract<RelayMessage, { accepted: number }>;

export type AcceptedConnection = Duplex & { remoteAddress?: string | undefined };

export interface RelayListener {
  port: number;
  close(): void;
}

export interface PodRelay {
  /** Rejects with an `EngineFault`. */
  connect(at: InstanceAddress, signal: AbortSignal): Promise<Duplex>;
  listen(
    at: InstanceAddress,
    onConnection: (connection: AcceptedConnection) => void,
    signal: AbortSignal,
  ): Promise<RelayListener>;
  /** Resolves, with everything opened destroyed, at `close` or the relay's end. */
  ended: Promise<void>;
  close(): void;
}

interface Request {
  at: InstanceAddress;
  /** Opens what the answer announces. */
  onOpened: (port: number) => void;
  onRefused: (fault: EngineFault) => void;
}

let sources: Promise<string[]> | undefined;

/** Program of a relay. */
async function programOf(pingMs: number): Promise<Buffer> {
  const read = (name: string): Promise<string> => readFile(path.join(import.meta.dirname, name), 'utf8');
  sources ??= Promise.all(['multiplexer.mjs', 'relay-program.mjs'].map(read));
  const text = Buffer.from(JSON.stringify({ sources: await sources, silentMs: MISSED_PINGS * pingMs }));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text]);
}

/** The signal ends the start only. Rejects with an `EngineFault`. */
export async function startRelay(
  exec: PodExec,
  signal: AbortSignal,
  { pingMs = PING_MS }: { pingMs?: number } = {},
): Promise<PodRelay> {
  const relay = new Relay(exec, pingMs);
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(START_MS)]);
  try {
    exec.stdin.write(await programOf(pingMs));
    await raceAbort(relay.ready, deadline);
    return relay;
  } catch (error) {
    relay.close();
    throw faultOf(error);
  }
}

class Relay implements PodRelay {
  readonly ready: Promise<void>;
  readonly ended: Promise<void>;
  readonly #exec: PodExec;
  readonly #pingMs: number;
  readonly #multiplexer: Multiplexer;
  readonly #ready = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #requests = new Map<number, Request>();
  readonly #listeners = new Map<number, (connection: AcceptedConnection) => void>();
  #lastId = -1;
  #hasEnded = false;
  #unanswered = 0;
  #pings: NodeJS.Timeout | undefined;

  constructor(exec: PodExec, pingMs: number) {
    this.#exec = exec;
    this.#pingMs = pingMs;
    this.ready = this.#ready.promise;
    this.ready.catch(() => {});
    this.ended = this.#ended.promise;
    this.#multiplexer = new Multiplexer({
      write: (bytes) => exec.stdin.write(bytes),
      onMessage: (message) => this.#onMessage(relayMessage.parse(message)),
    });
    exec.stdin.on('drain', () => this.#multiplexer.drained());
    exec.stdout.on('data', (bytes: Buffer) => {
      try {
        this.#multiplexer.receive(bytes);
      } catch (error) {
        this.#end(error);
      }
    });
    const errors: Buffer[] = [];
    let errorBytes = 0;
    exec.stderr.on('data', (bytes: Buffer) => {
      if (errorBytes < ERROR_TEXT_BYTES) errors.push(bytes);
      errorBytes += bytes.length;
    });
    exec.exited.then(
      (code) => {
        const text = Buffer.concat(errors).toString('utf8').trim().slice(0, ERROR_TEXT_BYTES);
        this.#end(new Error(`the relay exited with ${code}: ${text}`));
      },
      (error: unknown) => this.#end(error),
    );
  }

  connect(at: InstanceAddress, signal: AbortSignal): Promise<Duplex> {
    let stream: Duplex | undefined;
    return this.#request<Duplex>(at, signal, {
      send: (id) => this.#multiplexer.send({ connect: id, ...at }),
      opened: (id) => (stream = this.#multiplexer.open(id)),
      undo: () => stream?.destroy(),
    });
  }

  listen(
    address: InstanceAddress,
    onConnection: (connection: AcceptedConnection) => void,
    signal: AbortSignal,
  ): Promise<RelayListener> {
    let close = (): void => {};
    return this.#request<RelayListener>(address, signal, {
      send: (id) => {
        this.#listeners.set(id, onConnection);
        close = () => {
          if (this.#listeners.delete(id)) this.#multiplexer.send({ cancel: id });
        };
        this.#multiplexer.send({ listen: id, ...address });
      },
      opened: (_id, port) => ({ port, close }),
      undo: () => close(),
    });
  }

  close(): void {
    this.#end(runEnded());
  }

  async #request<T>(
    address: InstanceAddress,
    signal: AbortSignal,
    { send, opened, undo }: { send: (id: number) => void; opened: (id: number, port: number) => T; undo: () => void },
  ): Promise<T> {
    if (signal.aborted) throw faultOf(signal.reason);
    if (this.#hasEnded) throw runEnded();
    if (this.#multiplexer.size + this.#requests.size >= MAX_OPEN) throw tooManyConnections();
    // Odd ids are of this end.
    const id = (this.#lastId += 2);
    const answer = Promise.withResolvers<T>();
    this.#requests.set(id, {
      at: address,
      onOpened: (port) => answer.resolve(opened(id, port)),
      onRefused: answer.reject,
    });
    const leave = onAbort(signal, () => {
      answer.reject(faultOf(signal.reason));
      if (this.#requests.delete(id)) this.#multiplexer.send({ cancel: id });
    });
    try {
      send(id);
      const result = await answer.promise;
      if (!this.#hasEnded) return result;
      throw runEnded();
    } catch (error) {
      undo();
      throw error;
    } finally {
      leave();
    }
  }

  #onMessage(message: RelayMessage): void {
    if ('ready' in message) return this.#onReady();
    if ('pong' in message) return void (this.#unanswered = 0);
    if ('accepted' in message) return this.#onAccepted(message);
    const id =
      'connected' in message ? message.connected : 'listening' in message ? message.listening : message.refused;
    const request = this.#requests.get(id);
    this.#requests.delete(id);
    if ('refused' in message) {
      const { code, text } = message;
      // A resolver without an answer says that it may come later.
      request?.onRefused(openingFault(request.at, code === 'EAI_AGAIN' ? 'ENOTFOUND' : code, new Error(text)));
    } else if (request !== undefined) request.onOpened('port' in message ? message.port : 0);
    // Opened after the caller had left.
    else if ('connected' in message) this.#multiplexer.refuse(id);
  }

  #onReady(): void {
    this.#pings ??= setInterval(() => {
      if (this.#unanswered === MISSED_PINGS) return this.#end(new Error('the relay did not answer'));
      this.#unanswered += 1;
      this.#multiplexer.send({ ping: 1 });
    }, this.#pingMs).unref();
    this.#ready.resolve();
  }

  #onAccepted({ accepted, listener, remoteAddress, remotePort, localAddress, localPort }: Accepted): void {
    const onConnection = this.#listeners.get(listener);
    if (onConnection === undefined || this.#multiplexer.size >= MAX_OPEN) return this.#multiplexer.refuse(accepted);
    const stream = this.#multiplexer.open(accepted);
    onConnection(Object.assign(stream, { remoteAddress, remotePort, localAddress, localPort }));
  }

  #end(cause: unknown): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearInterval(this.#pings);
    this.#ready.reject(notStarted(cause));
    this.#multiplexer.end();
    for (const { onRefused } of this.#requests.values()) onRefused(runEnded());
    this.#requests.clear();
    this.#listeners.clear();
    this.#exec.close();
    this.#ended.resolve();
  }
}

/** The text of a program that is missing comes from the container runtime. */
function notStarted(cause: unknown): unknown {
  if (!(cause instanceof Error) || !/node/i.test(cause.message) || cause instanceof EngineFault) return cause;
  return new EngineFault(
    'rejected',
    `the image of the region's "networkImage" needs a shell and node 22 or newer: ${cause.message}`,
    { retry: true, cause },
  );
}

/** Parent of the process in an instance's network: starts the child, multiplexes requests. */
import { fork, type ChildProcess, type SendHandle } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { readlink } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { z } from 'zod';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { faultOf } from '../../../docker/faults.ts';
import { tooManyConnections } from '../../network-faults.ts';
import type { NameTarget } from './names.ts';

const PROGRAM = path.join(import.meta.dirname, 'child.mjs');
/** A child takes 46 MB, 9 of them unshared, and 50 ms to start. */
const IDLE_MS = 20_000;
const START_MS = 15_000;
/** A child that leaves a ping unanswered until the next is ended. */
const PING_MS = 5_000;
const MAX_REQUESTS = 256;
/** One at random for a child: a tenant who knew it could use up what the kernel counts by user. */
const USERS = { first: 0x7800_0000, end: 0x8000_0000 };

export type SocketRequest =
  | { connect: NameTarget & { port: number } }
  | { listen: { host: string; port: number }; onEarly: (socket: net.Socket) => void };

export class OpenError extends Error {
  readonly code: string;
  constructor(code: string, text: string) {
    super(text);
    this.code = code;
  }
}

export interface NetworkChild {
  /** Rejects with an `EngineFault`, or an `OpenError` from the system. */
  open(request: SocketRequest, signal: AbortSignal): Promise<net.Socket | net.Server>;
  stop(): void;
}

const childMessage = z.union([
  z.literal('pong'),
  z.object({ network: z.string() }),
  z.object({ id: z.number(), early: z.literal(true) }),
  z.object({ id: z.number(), handedOver: z.literal(true) }),
  z.object({ id: z.number(), code: z.string(), text: z.string() }),
  z.object({ id: z.number() }),
]);

interface Pending {
  resolve: (opened: net.Socket | net.Server) => void;
  reject: (error: Error) => void;
}

interface Child {
  process: ChildProcess;
  ready: Promise<void>;
  pending: Map<number, Pending>;
  early: Map<number, (socket: net.Socket) => void>;
}

export interface NetworkChildOptions {
  nsenter: string;
  network: string;
  idleMs?: number;
  pingMs?: number;
}

export function makeNetworkChild(options: NetworkChildOptions): NetworkChild {
  const { idleMs = IDLE_MS } = options;
  let current: Child | undefined;
  let lastId = 0;
  let stopped = false;
  let idle: NodeJS.Timeout | undefined;

  const forget = (child: Child): void => {
    if (current === child) current = undefined;
  };

  function disconnectWhenIdle(): void {
    clearTimeout(idle);
    const child = current;
    if (child === undefined || child.pending.size > 0) return;
    idle = setTimeout(() => {
      current = undefined;
      child.process.disconnect();
    }, idleMs).unref();
  }

  return {
    async open(request, signal) {
      if (stopped) throw lostChild(new Error('stopped'));
      if (signal.aborted) throw faultOf(signal.reason);
      clearTimeout(idle);
      const child = (current ??= startChild(options, forget));
      if (child.pending.size >= MAX_REQUESTS) throw tooManyConnections();
      const id = ++lastId;
      const answer = Promise.withResolvers<net.Socket | net.Server>();
      const cancel = (): void => {
        answer.reject(faultOf(signal.reason));
        child.early.delete(id);
        if (child.pending.delete(id) && child.process.connected) child.process.send({ id, cancel: true }, () => {});
      };
      child.pending.set(id, answer);
      signal.addEventListener('abort', cancel, { once: true });
      try {
        await Promise.race([child.ready, answer.promise]);
        if ('onEarly' in request) child.early.set(id, request.onEarly);
        // A lost request shows in the child's exit.
        child.process.send({ ...request, id }, () => {});
        const opened = await answer.promise;
        if (!signal.aborted) return opened;
        close(opened);
        throw faultOf(signal.reason);
      } finally {
        signal.removeEventListener('abort', cancel);
        disconnectWhenIdle();
      }
    },
    stop() {
      stopped = true;
      clearTimeout(idle);
      current?.process.kill('SIGKILL');
    },
  };
}

function startChild({ nsenter, network, pingMs = PING_MS }: NetworkChildOptions, onEnd: (child: Child) => void): Child {
  // Only the channel: no other descriptor, no environment, no debugger port in that network.
  const process_ = fork(PROGRAM, [String(randomInt(USERS.first, USERS.end))], {
    execPath: nsenter,
    execArgv: [`--net=${network}`, '--', process.execPath, '--disable-sigusr1'],
    env: {},
    cwd: '/',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const entered = Promise.withResolvers<void>();
  entered.promise.catch(() => {}); // requests see the error
  const child: Child = { process: process_, ready: entered.promise, pending: new Map(), early: new Map() };
  const timer = setTimeout(() => process_.kill('SIGKILL'), START_MS);
  const end = (error: Error): void => {
    clearTimeout(timer);
    onEnd(child);
    entered.reject(error);
    for (const { reject } of child.pending.values()) reject(error);
    child.pending.clear();
    process_.kill('SIGKILL');
  };
  const pings = pingChild(process_, pingMs, () => end(silentChild(pingMs)));
  process_.on('error', (error) => end(lostChild(error)));
  process_.on('exit', (code, by) => end(lostChild(new Error(`the child exited with ${code ?? by}`))));
  process_.on('disconnect', () => end(lostChild(new Error('the channel to the child was closed'))));
  process_.on('message', (message, handle) => {
    const parsed = childMessage.safeParse(message);
    if (!parsed.success) return close(handle);
    if (parsed.data === 'pong') return pings.onPong();
    if ('handedOver' in parsed.data) return void child.early.delete(parsed.data.id);
    if (!('network' in parsed.data)) return settle(child, parsed.data, handle);
    clearTimeout(timer);
    const other = parsed.data.network;
    readlink('/proc/self/ns/net').then(
      (own) => (own === other ? end(notEntered()) : entered.resolve(pings.start())),
      (error: unknown) => end(lostChild(error)),
    );
  });
  return child;
}

/** Calls `onSilent` when a ping is unanswered as the next one is due. */
function pingChild(child: ChildProcess, intervalMs: number, onSilent: () => void) {
  let answered = true;
  let timer: NodeJS.Timeout | undefined;
  const ping = (): void => {
    if (!child.connected) return clearInterval(timer);
    if (!answered) return onSilent();
    answered = false;
    child.send('ping', () => {});
  };
  return {
    // After a busy moment of this process, an answer may wait to be read: timers come first.
    start: () => void (timer = setInterval(() => setImmediate(ping), intervalMs).unref()),
    onPong: () => void (answered = true),
  };
}

function settle(
  child: Child,
  answer: { id: number; early?: true; code?: string; text?: string },
  handle: SendHandle | undefined,
): void {
  const { id, early, code, text = '' } = answer;
  if (early) {
    const onEarly = child.early.get(id);
    if (onEarly !== undefined && handle instanceof net.Socket) return onEarly(handle);
    return close(handle);
  }
  const pending = child.pending.get(id);
  child.pending.delete(id);
  if (code !== undefined) child.early.delete(id);
  if (code !== undefined) return pending?.reject(new OpenError(code, text));
  if (pending === undefined) close(handle);
  else if (handle instanceof net.Socket || handle instanceof net.Server) pending.resolve(handle);
  else pending.reject(new OpenError('ECONNRESET', 'the connection was closed at once'));
}

function close(handle: SendHandle | undefined): void {
  if (handle instanceof net.Socket) handle.on('error', () => {}).destroy();
  else if (handle instanceof net.Server) handle.close();
}

const lostChild = (cause: unknown): EngineFault =>
  new EngineFault('unreachable', "the connection to the instance's network was lost; the next attempt opens another", {
    retry: true,
    cause,
  });

const silentChild = (ms: number): EngineFault =>
  new EngineFault(
    'unreachable',
    `the process that opens connections in the instance's network did not answer within ${ms / 1000} s and was ended; try again`,
    { retry: true },
  );

const notEntered = (): EngineFault =>
  new EngineFault('rejected', "Berth could not enter the instance's network", { retry: true });

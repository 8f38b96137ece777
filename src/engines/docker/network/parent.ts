/** This side of the process in an instance's network: begun when it is asked something, asked many things at once, and missed when it ends. */
import { fork, type ChildProcess, type SendHandle } from 'node:child_process';
import { readlink } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { z } from 'zod';
import { EngineFault } from '../../../domain/engine-fault.ts';
import { faultOf } from '../client/faults.ts';
import type { Meaning } from '../container/names.ts';

const PROGRAM = path.join(import.meta.dirname, 'child.mjs');
/** Without work: it takes 46 MB, 9 of them its own, and a twentieth of a second to begin. */
const IDLE_MS = 20_000;
/** For it to begin. */
const BEGIN_MS = 15_000;
const QUESTIONS_AT_ONCE = 256;

export type Question =
  | { connect: Meaning & { port: number } }
  | { listen: { host: string; port: number }; onEarly: (socket: net.Socket) => void };

/** What the other side could not do: the system's code for it. */
export class Refusal extends Error {
  readonly code: string;
  constructor(code: string, text: string) {
    super(text);
    this.code = code;
  }
}

export interface NetworkChild {
  /** Answers with what was opened. Rejects with an `EngineFault`, or a `Refusal` when that can't be opened. */
  ask(question: Question, signal: AbortSignal): Promise<net.Socket | net.Server>;
  stop(): void;
}

const said = z.union([
  z.object({ network: z.string() }),
  z.object({ id: z.number(), early: z.literal(true) }),
  z.object({ id: z.number(), handedOver: z.literal(true) }),
  z.object({ id: z.number(), code: z.string(), text: z.string() }),
  z.object({ id: z.number() }),
]);

interface Waiting {
  resolve: (opened: net.Socket | net.Server) => void;
  reject: (error: Error) => void;
}

interface Running {
  process: ChildProcess;
  ready: Promise<void>;
  waiting: Map<number, Waiting>;
  early: Map<number, (socket: net.Socket) => void>;
}

export function makeNetworkChild({
  enter,
  network,
  idleMs = IDLE_MS,
}: {
  /** The program that enters namespaces. */
  enter: string;
  /** A file that is the namespace. */
  network: string;
  idleMs?: number;
}): NetworkChild {
  let running: Running | undefined;
  let lastId = 0;
  let stopped = false;
  let idle: NodeJS.Timeout | undefined;

  function begin(): Running {
    // No file of ours but the channel, no variable of our environment, and no way to be debugged: that would listen in there.
    const child = fork(PROGRAM, [], {
      execPath: enter,
      execArgv: [`--net=${network}`, '--', process.execPath, '--disable-sigusr1'],
      env: {},
      cwd: '/',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    const entered = Promise.withResolvers<void>();
    entered.promise.catch(() => {}); // whoever asks hears of it
    const begun: Running = { process: child, ready: entered.promise, waiting: new Map(), early: new Map() };
    const timer = setTimeout(() => child.kill('SIGKILL'), BEGIN_MS);
    const end = (error: Error): void => {
      clearTimeout(timer);
      if (running === begun) running = undefined;
      entered.reject(error);
      for (const { reject } of begun.waiting.values()) reject(error);
      begun.waiting.clear();
      child.kill('SIGKILL');
    };
    child.on('error', (error) => end(lostChild(error)));
    child.on('exit', (code, by) => end(lostChild(new Error(`it ended with ${code ?? by}`))));
    child.on('disconnect', () => end(lostChild(new Error('its channel was closed'))));
    child.on('message', (message, handle) => {
      const parsed = said.safeParse(message);
      if (!parsed.success) return letGo(handle);
      if ('handedOver' in parsed.data) return void begun.early.delete(parsed.data.id);
      if (!('network' in parsed.data)) return take(begun, parsed.data, handle);
      clearTimeout(timer);
      const other = parsed.data.network;
      readlink('/proc/self/ns/net').then(
        (own) => (own === other ? end(notEntered()) : entered.resolve()),
        (error: unknown) => end(lostChild(error)),
      );
    });
    return begun;
  }

  function take(
    begun: Running,
    answer: { id: number; early?: true; code?: string; text?: string },
    handle: SendHandle | undefined,
  ): void {
    const { id, early, code, text = '' } = answer;
    if (early) {
      const onEarly = begun.early.get(id);
      if (onEarly !== undefined && handle instanceof net.Socket) return onEarly(handle);
      return letGo(handle);
    }
    const waiting = begun.waiting.get(id);
    begun.waiting.delete(id);
    if (code !== undefined) begun.early.delete(id);
    if (code !== undefined) return waiting?.reject(new Refusal(code, text));
    if (waiting === undefined) letGo(handle);
    else if (handle instanceof net.Socket || handle instanceof net.Server) waiting.resolve(handle);
    else waiting.reject(new Refusal('ECONNRESET', 'it was closed as soon as it was open'));
  }

  function leaveWhenIdle(): void {
    clearTimeout(idle);
    const child = running;
    if (child === undefined || child.waiting.size > 0) return;
    idle = setTimeout(() => {
      running = undefined;
      child.process.disconnect();
    }, idleMs).unref();
  }

  return {
    async ask(question, signal) {
      if (stopped) throw lostChild(new Error('it is stopped'));
      if (signal.aborted) throw faultOf(signal.reason);
      clearTimeout(idle);
      const child = (running ??= begin());
      if (child.waiting.size >= QUESTIONS_AT_ONCE) throw tooMany();
      const id = ++lastId;
      const answer = Promise.withResolvers<net.Socket | net.Server>();
      const giveUp = (): void => {
        answer.reject(faultOf(signal.reason));
        child.early.delete(id);
        if (child.waiting.delete(id) && child.process.connected) child.process.send({ id, cancel: true }, () => {});
      };
      child.waiting.set(id, answer);
      signal.addEventListener('abort', giveUp, { once: true });
      try {
        await Promise.race([child.ready, answer.promise]);
        if ('onEarly' in question) child.early.set(id, question.onEarly);
        // That it did not get there shows in its end.
        child.process.send({ ...question, id }, () => {});
        const opened = await answer.promise;
        if (!signal.aborted) return opened;
        letGo(opened);
        throw faultOf(signal.reason);
      } finally {
        signal.removeEventListener('abort', giveUp);
        leaveWhenIdle();
      }
    },
    stop() {
      stopped = true;
      clearTimeout(idle);
      running?.process.kill('SIGKILL');
    },
  };
}

function letGo(handle: SendHandle | undefined): void {
  if (handle instanceof net.Socket) handle.on('error', () => {}).destroy();
  else if (handle instanceof net.Server) handle.close();
}

const lostChild = (cause: unknown): EngineFault =>
  new EngineFault('unreachable', "the way into the instance's network was lost; it is made anew with the next try", {
    retry: true,
    cause,
  });

const notEntered = (): EngineFault =>
  new EngineFault('rejected', "Berth could not enter the instance's network", { retry: true });

const tooMany = (): EngineFault =>
  new EngineFault('no_capacity', 'too many connections of the instance are being opened at once; try again', {
    retry: true,
  });

/** The API's client for terminals in the gateway process; `unavailable` while that is away. */
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { json } from 'node:stream/consumers';
import { WebSocket } from 'ws';
import type { z } from 'zod';
import { closeCodes, TERMINAL_PROTOCOL, terminalServerMessage } from '../../contract/exec.ts';
import type { AttachedTerminal, TerminalHost, TerminalMessage } from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { makeLine, type Line } from '../socket/socket-connection.ts';
import { makeAsker } from './socket-client.ts';
import { refusalIn } from './replies.ts';
import { listAnswer } from './wire.ts';

/** Longer than the gateway's own deadlines. */
const ASK_MS = 40_000;
const MOST_SHOWN_BYTES = 1024 * 1024;

export interface AskedTerminals extends TerminalHost {
  stop(): void;
}

export function askTerminals({ path }: { path: string }): AskedTerminals {
  const there = makeAsker({ socketPath: path, headers: {}, patienceMs: ASK_MS });

  async function ask(verb: string, body: object): Promise<unknown> {
    const { status, told } = await there.ask(`/${verb}`, body).catch((cause: unknown) => {
      throw away(cause);
    });
    if (status !== 200) throw refusalIn(told);
    return told;
  }

  return {
    list: async (instanceId) => listAnswer.parse(await ask('list', { instanceId })),
    async close(place) {
      await ask('close', place);
    },
    async attach(wish, signal) {
      const url = `ws://berth.invalid/attach?wish=${encodeURIComponent(JSON.stringify(wish))}`;
      const socket = new WebSocket(url, TERMINAL_PROTOCOL, {
        createConnection: () => connect(path),
        perMessageDeflate: false,
        maxPayload: MOST_SHOWN_BYTES,
        handshakeTimeout: ASK_MS,
      });
      const leave = (): void => socket.terminate();
      signal.addEventListener('abort', leave, { once: true });
      try {
        return await attached(socket);
      } catch (error) {
        socket.terminate();
        signal.throwIfAborted();
        throw error instanceof Refusal ? error : away(error);
      } finally {
        signal.removeEventListener('abort', leave);
      }
    },
    stop: () => there.stop(),
  };
}

const away = (cause: unknown): Refusal =>
  new Refusal('unavailable', 'the process that holds the terminals is away for a moment: try again soon', {
    detail: cause,
    retryAfterS: 2,
  });

type Text = z.output<typeof terminalServerMessage>;

/** Resolves when the gateway confirms the attachment. */
function attached(socket: WebSocket): Promise<AttachedTerminal> {
  return new Promise((resolve, reject) => {
    const told = makeHandOver<TerminalMessage>();
    const line: Line = makeLine({
      socket,
      badMessage: closeCodes.badMessage,
      take(data, isText) {
        if (!isText) return told.give({ kind: 'output', bytes: data });
        const text = terminalServerMessage.parse(JSON.parse(data.toString('utf8')));
        if (text.type === 'attached') return resolve(terminalOver(line, text, told.taken()));
        return told.give(toldBy(text));
      },
    });
    socket.once('error', reject);
    socket.once('unexpected-response', (_request, reply: IncomingMessage) => {
      json(reply).then((refusal) => reject(refusalIn(refusal)), reject);
    });
    void line.settled.then(({ code, why }) => {
      reject(new Error(why));
      if (code === closeCodes.ended) void told.give({ kind: 'ended', exitCode: null, why });
      else if (code !== 1000) void told.give({ kind: 'lost', why: LOST });
      told.end();
    });
  });
}

const LOST = 'the way to the terminal was lost; attach again';

function toldBy(text: Exclude<Text, { type: 'attached' }>): TerminalMessage {
  switch (text.type) {
    case 'size':
      return { kind: 'size', columns: text.columns, rows: text.rows };
    case 'reset':
      return { kind: 'reset' };
    case 'exit':
      return { kind: 'ended', exitCode: text.exitCode, why: 'the shell ended' };
    default:
      return text satisfies never;
  }
}

function terminalOver(
  line: Line,
  { created, columns, rows }: Extract<Text, { type: 'attached' }>,
  told: AsyncIterable<TerminalMessage>,
): AttachedTerminal {
  const lost = (): void => {}; // its end is told
  let wanted: Parameters<AttachedTerminal['resize']>[0] | null = null;
  let isSizing = false;
  /** Sends one size at a time; only the last of those queued is sent. */
  async function sendSize(): Promise<void> {
    if (isSizing) return;
    isSizing = true;
    for (let size = wanted; size !== null; size = wanted) {
      wanted = null;
      await line.send(JSON.stringify({ type: 'resize', ...size })).catch(lost);
    }
    isSizing = false;
  }
  return {
    created,
    size: { columns, rows },
    messages: told,
    type: (bytes) => line.send(bytes).catch(lost),
    resize(size) {
      wanted = size;
      void sendSize();
    },
    leave: () => line.close(1000, 'the viewer left'),
  };
}

interface HandOver<Thing> {
  /** Resolves when the value was taken, or the reader is gone. */
  give(thing: Thing): Promise<void>;
  end(): void;
  taken(): AsyncGenerator<Thing, void>;
}

/** Hand-over between a writer and a reader, with back-pressure. */
function makeHandOver<Thing>(): HandOver<Thing> {
  const given: { thing: Thing; done: () => void }[] = [];
  let over = false;
  let wake = (): void => {};
  return {
    give(thing) {
      if (over) return Promise.resolve();
      return new Promise((done) => {
        given.push({ thing, done });
        wake();
      });
    },
    end() {
      over = true;
      wake();
    },
    async *taken() {
      try {
        for (;;) {
          const next = given.shift();
          if (next !== undefined) {
            next.done();
            yield next.thing;
          } else if (over) return;
          else await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        over = true;
        for (const { done } of given.splice(0)) done();
      }
    },
  };
}

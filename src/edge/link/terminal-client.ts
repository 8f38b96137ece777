/** The API's client for terminals in the gateway process. Throws `unavailable` during an outage. */
import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { onAbort } from '../../async/abort.ts';
import { makeCoalescingQueue } from '../../async/coalesce.ts';
import { closeCodes, TERMINAL_PROTOCOL, terminalServerMessage } from '../../contract/compute/exec.ts';
import type { AttachedTerminal, TerminalHost, TerminalMessage, TerminalSize } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { makeSocketConnection, type SocketConnection } from '../socket/socket-connection.ts';
import { connectLink, type LinkAddress } from './link-address.ts';
import { makeLinkClient } from './link-client.ts';
import { parseRefusal, listAnswer } from './wire.ts';

/** Longer than the gateway's own deadlines. */
const REQUEST_MS = 40_000;
const MAX_MESSAGE_BYTES = 1024 * 1024;

export interface TerminalClient extends TerminalHost {
  stop(): void;
}

export function makeTerminalClient({ address }: { address: LinkAddress }): TerminalClient {
  const away = 'the process that holds the terminals is away for a moment: try again soon';
  const client = makeLinkClient({ address, headers: {}, timeoutMs: REQUEST_MS, away });

  return {
    list: (instanceId) => client.ask('list', { instanceId }, listAnswer),
    async close(terminal) {
      await client.ask('close', terminal, z.null());
    },
    async attach(request, signal) {
      const url = `ws://berth.invalid/attach?request=${encodeURIComponent(JSON.stringify(request))}`;
      const socket = new WebSocket(url, TERMINAL_PROTOCOL, {
        createConnection: () => connectLink(address),
        perMessageDeflate: false,
        maxPayload: MAX_MESSAGE_BYTES,
        handshakeTimeout: REQUEST_MS,
      });
      const unsubscribe = onAbort(signal, () => socket.terminate());
      try {
        return await attachOver(socket);
      } catch (error) {
        socket.terminate();
        signal.throwIfAborted();
        throw error instanceof Refusal ? error : client.unavailable(error);
      } finally {
        unsubscribe();
      }
    },
    stop: () => client.stop(),
  };
}

type Text = z.output<typeof terminalServerMessage>;

function attachOver(socket: WebSocket): Promise<AttachedTerminal> {
  return new Promise((resolve, reject) => {
    const messages = makeHandOver<TerminalMessage>();
    const connection: SocketConnection = makeSocketConnection({
      socket,
      badMessage: closeCodes.badMessage,
      onMessage(data, isText) {
        if (!isText) return messages.put({ kind: 'output', bytes: data });
        const text = terminalServerMessage.parse(JSON.parse(data.toString('utf8')));
        if (text.type === 'attached') return resolve(attachedTerminal(connection, text, messages.values()));
        return messages.put(messageOf(text));
      },
    });
    socket.once('error', reject);
    socket.once('unexpected-response', (_request, reply: IncomingMessage) => {
      json(reply).then((refusal) => reject(parseRefusal(refusal)), reject);
    });
    void connection.settled.then(({ code, why }) => {
      reject(new Error(why));
      if (code === closeCodes.ended) void messages.put({ kind: 'ended', exitCode: null, why });
      else if (code !== 1000) void messages.put({ kind: 'lost', why: LOST });
      messages.end();
    });
  });
}

const LOST = 'the connection to the terminal was lost; attach again';

function messageOf(text: Exclude<Text, { type: 'attached' }>): TerminalMessage {
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

function attachedTerminal(
  connection: SocketConnection,
  { created, columns, rows }: Extract<Text, { type: 'attached' }>,
  messages: AsyncIterable<TerminalMessage>,
): AttachedTerminal {
  const ignoreClosed = (): void => {}; // the end is a message of its own
  const sizes = makeCoalescingQueue((size: TerminalSize) =>
    connection.send(JSON.stringify({ type: 'resize', ...size })).catch(ignoreClosed),
  );
  return {
    created,
    size: { columns, rows },
    messages,
    type: (bytes) => connection.send(bytes).catch(ignoreClosed),
    resize: sizes.replace,
    leave: () => connection.close(1000, 'the viewer disconnected'),
  };
}

interface HandOver<Thing> {
  /** Resolves when the reader took the value or left. */
  put(thing: Thing): Promise<void>;
  end(): void;
  values(): AsyncGenerator<Thing, void>;
}

function makeHandOver<Thing>(): HandOver<Thing> {
  const pending: { thing: Thing; done: () => void }[] = [];
  let hasEnded = false;
  let wake = (): void => {};
  return {
    put(thing) {
      if (hasEnded) return Promise.resolve();
      return new Promise((done) => {
        pending.push({ thing, done });
        wake();
      });
    },
    end() {
      hasEnded = true;
      wake();
    },
    async *values() {
      try {
        for (;;) {
          const next = pending.shift();
          if (next !== undefined) {
            next.done();
            yield next.thing;
          } else if (hasEnded) return;
          else await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        hasEnded = true;
        for (const { done } of pending.splice(0)) done();
      }
    },
  };
}

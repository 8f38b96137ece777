/**
 * Instances that disconnect at each byte of a response, by end or reset: the client gets an error,
 * never a truncated response that looks complete.
 */
import type { Socket } from 'node:net';
import { expect } from 'vitest';
import { exchange, finalOf, isWhole, PATH, request } from './hostile-harness.ts';
import type { Hostile, Seen } from './hostile-harness.ts';

const FIXED = 'HTTP/1.1 200 Fine\r\nContent-Type: text/plain\r\nContent-Length: 12\r\nX-Last: end\r\n\r\nhello, world';
const CHUNKED =
  'HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n6;x=y\r\nhello,\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n';
const CLOSING = CHUNKED.replace('\r\n', '\r\nConnection: close\r\n');
const BODY = '\r\n\r\n';

/** Kinds of positions: what follows a response cut after `at` bytes. */
const kindsOfHead: [kind: string, isThere: (text: string, at: number) => boolean][] = [
  ['before a word', (_text, at) => at === 0],
  ['in the name of the protocol', (_text, at) => at < 'HTTP/'.length],
  ['in the version', (_text, at) => at <= 'HTTP/1.1'.length],
  ['in the status', (_text, at) => at <= 'HTTP/1.1 200'.length],
  ['in the reason', (text, at) => at <= text.indexOf('\r\n')],
  ['in the last empty line', (text, at) => at > text.indexOf(BODY) + 1],
  ['in an end of line', (text, at) => text[at - 1] === '\r'],
  ['at the beginning of a line', (text, at) => text[at - 1] === '\n'],
  ['in the length', (text, at) => /\r\nContent-Length: \d*$/i.test(text.slice(0, at))],
  ['in a name', (text, at) => /\r\n[\w-]+$/.test(text.slice(0, at))],
  ['after a colon', (text, at) => /: ?$/.test(text.slice(0, at))],
  ['in a value', () => true],
];

const kindsOfChunks: typeof kindsOfHead = [
  ['before the first chunk', (text, at) => at === text.indexOf(BODY) + 4],
  ['in a last chunk', (text, at) => /\r\n0\r?$/.test(text.slice(0, at))],
  ['before trailers', (text, at) => text.slice(0, at).endsWith('\r\n0\r\n')],
  ['in trailers', (text, at) => /\r\n0\r\n[^\r\n]+\r?$/.test(text.slice(0, at))],
  ['in the last empty line', (text, at) => at >= text.length - 2],
  ['in a size', (text, at) => /\r\n6(;[a-z=]*)?\r?$/.test(text.slice(0, at))],
  ['after a size', (text, at) => /6(;x=y)?\r\n$/.test(text.slice(0, at))],
  ['after the bytes of a chunk', (text, at) => /(hello,|world)\r?$/.test(text.slice(0, at))],
  ['between chunks', (text, at) => /(hello,|world)\r\n$/.test(text.slice(0, at))],
  ['in the bytes of a chunk', () => true],
];

const kindsOfBody: typeof kindsOfHead = [
  ['before the body', (text, at) => at === text.indexOf(BODY) + 4],
  ['one byte before the end of the body', (text, at) => at === text.length - 1],
  ['in the body', () => true],
];

/** All positions from `first`, by kind; each has one. */
function offsetsOf(text: string, first: number, end: number, kinds: typeof kindsOfHead): Map<string, number[]> {
  const offsets = new Map<string, number[]>(kinds.map(([kind]) => [kind, []]));
  for (let at = first; at < end; at += 1) {
    const kind = kinds.find(([, isThere]) => isThere(text, at))?.[0] ?? '';
    offsets.get(kind)?.push(at);
  }
  for (const [kind, found] of offsets) if (found.length === 0) throw new Error(`no byte lies ${kind}`);
  return offsets;
}

type End = 'end' | 'reset';

/** Disconnects at the next position with each connection; the client sends one request for each. */
const diesAt = (text: string, offsets: readonly number[], by: End) => {
  let count = 0;
  return (socket: Socket): void => {
    socket.once('data', () => {
      const at = offsets[count++ % offsets.length] ?? 0;
      const part = Buffer.from(text.slice(0, at), 'latin1');
      if (by === 'end') return void socket.end(part);
      // Without a turn of the event loop the reset may overtake the write.
      socket.write(part, () => setImmediate(() => socket.resetAndDestroy()));
    });
  };
};

interface Death {
  text: string;
  offsets: Map<string, number[]>;
  holds: (seen: Seen) => void;
  what: string;
  version: string;
}

const deaths = ({ text, offsets, holds, what, version }: Death): Hostile[] =>
  [...offsets].flatMap(([kind, found]) =>
    (['end', 'reset'] as const).map((by): Hostile => ({
      name: `an instance that dies ${kind} (${what}, by ${by === 'end' ? 'an end' : 'a reset'}, to HTTP/${version}; ${found.length})`,
      inside: diesAt(text, found, by),
      sent: request([], { version }),
      holds: async (seen) => {
        holds(seen);
        for (let count = 1; count < found.length; count += 1)
          holds({ ...seen, ...(await exchange(seen.harness.port, request([], { version }))) });
        expect(seen.upstreamRequests).toHaveLength(found.length);
      },
    })),
  );

const is502 = ({ answer, wasReset }: Seen): void => {
  expect(finalOf(answer).status).toBe(502);
  expect(isWhole({ answer, wasReset })).toBe(true);
};
const isNoSuccess = (seen: Seen): void => {
  const { status } = finalOf(seen.answer);
  // The reset may overtake the head.
  expect([200, 502]).toContain(status);
  if (status === 200) expect(isWhole(seen)).toBe(false);
};

const endOfHead = FIXED.indexOf(BODY) + 4;
const endOfChunkedHead = CHUNKED.indexOf(BODY) + 4;

const UPGRADE = `GET ${PATH}/ HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;

export const dying: Hostile[] = [
  ...deaths({
    text: FIXED,
    offsets: offsetsOf(FIXED, 0, endOfHead, kindsOfHead),
    holds: is502,
    what: 'a head',
    version: '1.1',
  }),
  ...['1.1', '1.0'].flatMap((version) => [
    ...deaths({
      text: FIXED,
      offsets: offsetsOf(FIXED, endOfHead, FIXED.length, kindsOfBody),
      holds: isNoSuccess,
      what: 'a length',
      version,
    }),
    ...deaths({
      text: CHUNKED,
      offsets: offsetsOf(CHUNKED, endOfChunkedHead, CHUNKED.length, kindsOfChunks),
      holds: isNoSuccess,
      what: 'chunks',
      version,
    }),
  ]),
  {
    name: 'an instance that resets within a body without a length',
    inside: diesAt('HTTP/1.1 200 OK\r\n\r\nhello', [24], 'reset'),
    holds: isNoSuccess,
  },
  {
    name: 'an instance that resets within a body without a length, to HTTP/1.0',
    inside: diesAt('HTTP/1.1 200 OK\r\n\r\nhello', [24], 'reset'),
    sent: request([], { version: '1.0' }),
    holds: isNoSuccess,
  },
  ...(['end', 'reset'] as const).map((by): Hostile => ({
    name: `an instance that dies in chunks after which it would close, by ${by === 'end' ? 'an end' : 'a reset'}`,
    inside: diesAt(CLOSING, [CLOSING.length - 20], by),
    holds: isNoSuccess,
  })),
  ...[FIXED, CHUNKED].map((text): Hostile => ({
    name: `an instance that refuses a WebSocket and dies in the body (${text === FIXED ? 'a length' : 'chunks'})`,
    inside: diesAt(text, [text.length - 20 + (text === FIXED ? 12 : 0)], 'end'),
    sent: UPGRADE,
    holds: isNoSuccess,
  })),
  ...(['end', 'reset'] as const).map((by): Hostile => ({
    name: `an instance that dies in the head of a refused WebSocket, by ${by === 'end' ? 'an end' : 'a reset'}`,
    inside: diesAt(FIXED, [40], by),
    sent: UPGRADE,
    holds: is502,
  })),
];

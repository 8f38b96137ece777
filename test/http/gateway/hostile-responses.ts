/**
 * Instances with invalid, oversized, early or endless HTTP responses: the client gets one correct
 * response or an error.
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { expect } from 'vitest';
import { until } from './harness.ts';
import { answerOf, exchange, finalOf, isWhole, OK, request } from './hostile-harness.ts';
import type { Hostile, Seen } from './hostile-harness.ts';

const isRefused = ({ answer }: Seen): void => {
  expect(answer).toMatch(/^HTTP\/1\.1 502 [^]*^x-error-code: unavailable\r/im);
  expect(answer.match(/^HTTP\/1\.1 /gm)).toHaveLength(1);
};
const isBroken = (seen: Seen): void => {
  expect(finalOf(seen.answer).status).not.toBe(0);
  expect(isWhole(seen)).toBe(false);
};
/** Expects a single response without smuggled content. */
const isOne = (seen: Seen, body = 'ok'): void => {
  const { status, head, rest } = finalOf(seen.answer);
  expect([status, rest]).toEqual([200, body]);
  expect(head).not.toMatch(/^x-evil/im);
};

const refused: Record<string, string> = {
  'a status of two digits': 'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n',
  'a status of four digits': 'HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n',
  'a status that is not a number': 'HTTP/1.1 OK 200\r\nContent-Length: 0\r\n\r\n',
  'another protocol': 'ICY 200 OK\r\n\r\nmusic',
  'a protocol in lower case': 'http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  'an invalid version': 'HTTP/1 200 OK\r\nContent-Length: 0\r\n\r\n',
  'a preface of HTTP/2': '\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64',
  'an alert of TLS': '\x15\x03\x01\0\x02\x02\x28',
  'a banner of ssh': 'SSH-2.0-OpenSSH_9.2\r\n',
  'a page without a head': '<html>hello</html>',
  'a space before a colon': 'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok',
  'a header without a colon': 'HTTP/1.1 200 OK\r\nX-Evil\r\nContent-Length: 2\r\n\r\nok',
  'a header without a name': 'HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 2\r\n\r\nok',
  'a NUL in a header': 'HTTP/1.1 200 OK\r\nX-Evil: a\0b\r\nContent-Length: 2\r\n\r\nok',
  'a bare carriage return in a header': 'HTTP/1.1 200 OK\r\nX: a\rX-Evil: b\r\nContent-Length: 2\r\n\r\nok',
  'a length below zero': 'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok',
  'a length with a sign': 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok',
  'a length in hexadecimal': 'HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok',
  'a length as a word': 'HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok',
  'a length that wraps around': 'HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551618\r\n\r\nok',
  'lengths in a list': 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok',
  'a length and chunks':
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  'an endless head': `HTTP/1.1 200 OK\r\n${`X-Long: ${'x'.repeat(1_000)}\r\n`.repeat(64)}`,
  'an endless header': `HTTP/1.1 200 OK\r\nX-Long: ${'x'.repeat(100_000)}`,
  'an endless header name': `HTTP/1.1 200 OK\r\n${'x'.repeat(100_000)}`,
  'a head over the limit': `HTTP/1.1 200 OK\r\n${`X-Long: ${'x'.repeat(1_000)}\r\n`.repeat(40)}Content-Length: 2\r\n\r\nok`,
  'an unrequested 101': 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw',
  'a 101 without headers': 'HTTP/1.1 101 Switching Protocols\r\n\r\nraw',
  'a body without a head': 'ok',
  'a status line of HTTP/2.0': 'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'a first chunk with bare line feeds': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n',
};

const chunks = (trailers: readonly string[]): string =>
  `HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${[...trailers, 'X-Sum: 1'].join('\r\n')}\r\n\r\n`;
const broken: Record<string, string> = {
  'a chunk with an invalid size': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nx\r\n',
  'a chunk with a size that wraps around':
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n10000000000000002\r\nok\r\n0\r\n\r\n',
  'a chunk with a negative size':
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n-1\r\nok\r\n0\r\n\r\n',
  'a chunk longer than its size': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokok\r\n0\r\n\r\n',
  'a chunk with bare line feeds': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n2\nok\n0\n\n',
  'endless trailers': `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${`X-Long: ${'x'.repeat(1_000)}\r\n`.repeat(64)}`,
  'a trailer with a NUL': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: a\0b\r\n\r\n',
};

const trailers: readonly string[] = [
  'Content-Length: 666',
  'Set-Cookie: berth_gateway=evil',
  'Set-Cookie: a=evil',
  'Content-Type: text/evil',
  'Content-Security-Policy: evil',
  'Transfer-Encoding: evil',
  'Connection: evil',
  'Trailer: evil',
  'Clear-Site-Data: "evil"',
  'Strict-Transport-Security: evil',
];

const isWithoutIt = ({ answer }: Seen): void => {
  expect(finalOf(answer).rest).toBe('2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n');
};

/** Answers the first request with this text, later ones correctly. */
function first(answer: string): (socket: Socket) => void {
  let next = answer;
  return (socket) => {
    socket.on('data', () => {
      socket.write(next, 'latin1');
      next = OK;
    });
  };
}

/** The next client gets its own response. */
async function nextIsRight({ harness }: Seen, { hungUp } = { hungUp: false }): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    if (hungUp) await until('the gateway has hung up', () => harness.dialled.size === 0);
    const next = await exchange(harness.port, request());
    expect(finalOf(next.answer)).toMatchObject({ status: 200, rest: 'ok' });
  }
}

async function hasNoBody(seen: Seen): Promise<void> {
  expect(finalOf(seen.answer).rest).toBe('');
  expect(seen.answer).not.toMatch(/evil/);
  await nextIsRight(seen);
}

const twice: Record<string, (socket: Socket) => void> = {
  'twice in one piece': first(OK + answerOf(['X-Evil: 1'], 'evil')),
  'twice, the second a moment later': (socket) => {
    let count = 0;
    socket.on('data', () => {
      socket.write(OK);
      if (count++ === 0) setTimeout(() => socket.write(answerOf(['X-Evil: 1'], 'evil')), 20);
    });
  },
  'with more bytes than its length': first(`${OK}evil`),
  'and begins another response': first(`${OK}HTTP/1.1 200 O`),
  'with Connection: close, then more': first('HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nokevil'),
};

const waits = async (what: string, holds: () => boolean): Promise<void> => until(what, holds);

export const answers: Hostile[] = [
  ...Object.entries(refused).map(([name, inside]): Hostile => ({
    name: `an answer with ${name}`,
    inside,
    holds: isRefused,
  })),
  ...Object.entries(broken).map(([name, inside]): Hostile => ({
    name: `an answer with ${name}`,
    inside,
    holds: isBroken,
  })),
  ...trailers.map((line): Hostile => ({
    name: `the trailer ${line}`,
    inside: chunks([line]),
    holds: isWithoutIt,
  })),
  ...Object.entries(twice).map(([name, inside]): Hostile => ({
    name: `an instance that answers ${name}`,
    inside,
    holds: async (seen) => {
      isOne(seen);
      await nextIsRight(seen, { hungUp: true });
    },
  })),
  {
    name: 'an instance that answers before the request',
    inside: (socket) => {
      socket.write(OK);
      socket.on('data', () => socket.write(answerOf(['X-Evil: 1'], 'evil')));
    },
    holds: (seen) => {
      expect(seen.answer.match(/^HTTP\/1\.1 /gm)).toHaveLength(1);
      expect(isWhole(seen)).toBe(true);
    },
  },
  {
    name: 'an instance that answers an idle connection',
    inside: (socket) => {
      socket.on('data', () => socket.write(OK));
      socket.once('data', () => {
        setTimeout(() => socket.write('HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nevil'), 10);
      });
    },
    holds: async (seen) => {
      isOne(seen);
      await nextIsRight(seen, { hungUp: true });
    },
  },
  {
    name: 'an instance that answers in the middle of an upload',
    inside: (socket) => socket.once('data', () => socket.end(answerOf(['Connection: close'], 'ok'))),
    sent: request(['Content-Length: 1000000'], { method: 'POST', body: 'x'.repeat(1_000_000) }),
    holds: (seen) => expect([200, 502]).toContain(finalOf(seen.answer).status),
  },
  {
    name: 'unfolds or drops folded headers',
    inside: answerOf(['X-Folded: a', ' X-Evil: b']),
    holds: ({ answer }) => expect(finalOf(answer).head).not.toMatch(/^\s*x-evil/im),
  },
  {
    name: 'a bare line feed starts no header',
    inside: 'HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: berth_gateway=evil\r\nContent-Length: 2\r\n\r\nok',
    holds: ({ answer }) => expect(answer).not.toMatch(/evil/),
  },
  {
    name: 'a line end in a reason phrase starts no header',
    inside: 'HTTP/1.1 200 OK\rX-Evil: 1\r\nContent-Length: 2\r\n\r\nok',
    holds: ({ answer }) => expect(answer).not.toMatch(/^x-evil/im),
  },
  {
    name: 'removes control characters from a reason phrase',
    inside: 'HTTP/1.1 200 a\x07b\x7f\r\nContent-Length: 2\r\n\r\nok',
    holds: ({ answer }) => expect(answer.split('\r\n')[0]).toMatch(/^HTTP\/1\.1 (200|502) [ -~]*$/),
  },
  {
    name: 'a response without a reason phrase',
    inside: 'HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok',
    holds: (seen) => isOne(seen),
  },
  {
    name: 'a response in HTTP/1.0',
    inside: 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
    holds: (seen) => isOne(seen),
  },
  {
    name: 'a body without a length',
    inside: 'HTTP/1.1 200 OK\r\n\r\nok',
    holds: (seen) => {
      expect(isWhole(seen)).toBe(true);
      expect(finalOf(seen.answer).rest).toContain('ok');
    },
  },
  {
    name: 'passes unknown encodings as a body without a length, or refuses them',
    inside: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    holds: ({ answer }) => expect(finalOf(answer).head).not.toMatch(/gzip/i),
  },
  {
    name: 'a chunk extension of a megabyte',
    inside: `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=${'x'.repeat(1 << 20)}\r\nok\r\n0\r\n\r\n`,
    holds: (seen) => {
      expect(seen.answer.length).toBeLessThan(2_000);
      if (finalOf(seen.answer).status === 200 && isWhole(seen))
        expect(finalOf(seen.answer).rest).toMatch(/^2\r\nok\r\n0/);
    },
  },
  {
    name: 'a 103 without a response',
    inside: 'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n',
    holds: ({ answer }) => expect(finalOf(answer).status).toBe(502),
  },
  {
    name: 'drops an unrequested 100',
    inside: `HTTP/1.1 100 Continue\r\n\r\n${OK}`,
    holds: (seen) => isOne(seen),
  },
  { name: '102 before the response', inside: `HTTP/1.1 102 Processing\r\n\r\n${OK}`, holds: (seen) => isOne(seen) },
  {
    name: '103 with headers not for browsers',
    inside: `HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nSet-Cookie: berth_gateway=evil\r\nConnection: evil\r\nX-Evil: evil\r\n\r\n${OK}`,
    holds: (seen) => {
      isOne(seen);
      expect(seen.answer).toMatch(/^HTTP\/1\.1 103 [^]*link: <\/a>/i);
      expect(seen.answer).not.toMatch(/evil/i);
    },
  },
  {
    name: '103 with an invalid Link',
    inside: `HTTP/1.1 103 Early Hints\r\nLink: evil\r\n\r\n${OK}`,
    holds: (seen) => isOne(seen),
  },
  {
    name: '103 to an HTTP/1.0 client',
    inside: `HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n${OK}`,
    sent: request([], { version: '1.0' }),
    holds: ({ answer }) => expect(answer).toMatch(/^HTTP\/1\.1 200 [^]*ok$/),
  },
  {
    name: 'an unknown 199',
    inside: `HTTP/1.1 199 Odd\r\nX-Evil: 1\r\n\r\n${OK}`,
    holds: (seen) => {
      isOne(seen);
      expect(seen.answer).not.toMatch(/evil/i);
    },
  },
  {
    name: 'endless 1xx responses',
    inside: (socket) => {
      socket.once('data', () => {
        const hint = 'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n';
        socket.write(hint.repeat(20_000));
        socket.end(OK);
      });
    },
    holds: (seen) => {
      isOne(seen);
      expect(seen.answer.match(/^HTTP\/1\.1 10[23] /gm)?.length).toBeLessThan(100);
    },
  },
  {
    name: 'HEAD answered with a body',
    inside: first('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'),
    sent: request([], { method: 'HEAD' }),
    holds: async (seen) => {
      expect(finalOf(seen.answer)).toMatchObject({ status: 200, rest: '' });
      expect(seen.answer).toMatch(/^content-length: 4\r/im);
      await nextIsRight(seen);
    },
  },
  {
    name: 'HEAD answered with chunks',
    inside: first('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n'),
    sent: request([], { method: 'HEAD' }),
    holds: async (seen) => {
      expect(finalOf(seen.answer)).toMatchObject({ status: 200, rest: '' });
      await nextIsRight(seen);
    },
  },
  ...[
    ['204 with a body', 'HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nevil'],
    ['204 with chunks', 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n'],
    ['304 with a body', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil'],
  ].map(([name = '', inside = '']): Hostile => ({
    name,
    inside: first(inside),
    holds: hasNoBody,
  })),
  {
    name: 'disconnects an instance that never answers when its client leaves',
    inside: () => {},
    sent: 'x\r\n\r\n',
    holds: async ({ harness }) => {
      const client = connect(harness.port, '127.0.0.1');
      client.write(request());
      await waits('the instance has the request', () => harness.dialled.size === 1);
      client.destroy();
      await waits('the upstream connection is closed', () => harness.dialled.size === 0);
      expect(harness.began.every(({ done }) => done)).toBe(true);
    },
  },
  {
    name: 'disconnects an instance that never finishes when its client leaves',
    inside: (socket) => {
      socket.once('data', () => {
        const piece = Buffer.alloc(65_536);
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
        const fill = (): void => {
          while (!socket.destroyed) {
            socket.write('10000\r\n');
            socket.write(piece);
            if (!socket.write('\r\n')) return void socket.once('drain', fill);
          }
        };
        fill();
      });
    },
    sent: 'x\r\n\r\n',
    holds: async ({ harness }) => {
      const client = connect(harness.port, '127.0.0.1');
      let bytes = 0;
      client.on('data', (chunk: Buffer) => (bytes += chunk.length));
      client.write(request());
      await waits('much of it came', () => bytes > 8 << 20);
      client.destroy();
      await waits('the upstream connection is closed', () => harness.dialled.size === 0);
      expect(harness.began.every(({ done }) => done)).toBe(true);
    },
  },
];

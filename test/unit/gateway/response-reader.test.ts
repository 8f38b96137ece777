import { describe, expect, test } from 'vitest';
import { ResponseFault, type ResponseHead } from '../../../src/edge/gateway/response-head.ts';
import { ResponseReader } from '../../../src/edge/gateway/response-reader.ts';

interface Got {
  heads: ResponseHead[];
  body: string;
  trailers: string[] | null;
}

/** Feeds the pieces, then optionally the end of the connection. */
function read(pieces: readonly string[], { method = 'GET', thenEnd = false } = {}): Got {
  const got: Got = { heads: [], body: '', trailers: null };
  const reader = new ResponseReader(1_024);
  reader.expect(method, {
    onHead: (head) => void got.heads.push(head),
    onData: (chunk) => void (got.body += chunk.toString('latin1')),
    onEnd: (trailers) => void (got.trailers = trailers),
  });
  for (const piece of pieces) reader.feed(Buffer.from(piece, 'latin1'));
  if (thenEnd) reader.end();
  return got;
}

const ok = (headers: string, body = ''): string => `HTTP/1.1 200 OK\r\n${headers}\r\n${body}`;

const whole: [string, string, Partial<Got>][] = [
  ['a length', ok('Content-Length: 5\r\n', 'hello'), { body: 'hello', trailers: [] }],
  ['no body', ok('Content-Length: 0\r\n'), { body: '', trailers: [] }],
  [
    'chunks, extensions and trailers',
    ok(
      'Transfer-Encoding: Chunked\r\n',
      '5;a="b"\r\nhello\r\n00A\r\n, and more\r\n0\r\nX-Sum: 1\r\nX-Other:\t2 \r\n\r\n',
    ),
    { body: 'hello, and more', trailers: ['X-Sum', '1', 'X-Other', '2'] },
  ],
  [
    '1xx responses before it',
    `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100\r\n\r\n${ok('Content-Length: 2\r\n', 'ok')}`,
    { body: 'ok', trailers: [] },
  ],
  ['204 with a length', 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n', { body: '', trailers: [] }],
  ['bytes beyond ASCII', ok('X-Name: \xe9\xff\r\nContent-Length: 1\r\n', '\xff'), { body: '\xff', trailers: [] }],
];
describe('parses a response alike in any split', () => {
  test.each(whole)('%s', (_name, text, wanted) => {
    const inOne = read([text]);
    expect(inOne).toMatchObject(wanted);
    for (let at = 1; at < text.length; at += 1)
      expect(read([text.slice(0, at), text.slice(at)]), `cut at ${at}`).toEqual(inOne);
    expect(read(text.split(''))).toEqual(inOne);
  });

  test('parses a complete head', () => {
    const text = 'HTTP/1.1 418 Short and stout\r\nA: b\r\nKeep-Alive: max=5, timeout=9\r\nConnection: x, Close\r\n\r\n';
    expect(read([text], { method: 'HEAD' }).heads).toEqual([
      {
        status: 418,
        reason: 'Short and stout',
        raw: ['A', 'b', 'Keep-Alive', 'max=5, timeout=9', 'Connection', 'x, Close'],
        framing: 0,
        keepAlive: false,
        keepAliveS: 9,
      },
    ]);
  });

  test.each([
    ['HTTP/1.1', '', true],
    ['HTTP/1.0', '', false],
    ['HTTP/1.0', 'Connection: Keep-Alive\r\n', true],
    ['HTTP/1.1', 'Connection: close\r\n', false],
  ])('%s %j stays open: %s', (version, header, keepAlive) => {
    const { heads } = read([`${version} 200 OK\r\n${header}Content-Length: 0\r\n\r\n`]);
    expect(heads).toMatchObject([{ keepAlive }]);
  });
});

test('a body without a length ends with the connection only', () => {
  const text = ok('', 'all of it');
  expect(read([text])).toMatchObject({ body: 'all of it', trailers: null, heads: [{ keepAlive: false }] });
  expect(read([text], { thenEnd: true })).toMatchObject({ body: 'all of it', trailers: [] });
  expect(read([ok('Content-Length: 9\r\n', 'half')], { thenEnd: true }).trailers).toBe(null);
  expect(read([ok('Transfer-Encoding: chunked\r\n', '4\r\nhalf')], { thenEnd: true }).trailers).toBe(null);
});

const refused: [string, string][] = [
  ['no HTTP', 'SSH-2.0-OpenSSH\r\n\r\n'],
  ['another HTTP version', 'HTTP/2 200\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 99 No\r\n\r\n'],
  ['an unrequested upgrade', 'HTTP/1.1 101 Switching Protocols\r\n\r\n'],
  ['two lengths', ok('Content-Length: 1\r\nContent-Length: 2\r\n', 'ab')],
  ['two equal lengths', ok('Content-Length: 1\r\ncontent-length: 1\r\n', 'a')],
  ['a length in a list', ok('Content-Length: 1, 1\r\n', 'a')],
  ['a signed length', ok('Content-Length: +1\r\n', 'a')],
  ['a length in hex', ok('Content-Length: 0x1\r\n', 'a')],
  ['an empty length', ok('Content-Length:\r\n', 'a')],
  ['an endless length', ok(`Content-Length: ${'9'.repeat(16)}\r\n`, 'a')],
  ['both a length and chunks', ok('Content-Length: 1\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n')],
  ['another encoding', ok('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n')],
  ['chunks twice', ok('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n')],
  ['chunks of HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['a space before the colon', ok('Content-Length : 1\r\n', 'a')],
  ['a header without a name', ok(': 1\r\n')],
  ['a folded line', ok('A: b\r\n c\r\n')],
  ['a line without a colon', ok('nonsense\r\n')],
  ['a bare line feed', 'HTTP/1.1 200 OK\r\nA: b\nContent-Length: 1\r\n\r\na'],
  ['a bare carriage return', ok('A: b\rContent-Length: 1\r\n')],
  ['a control character', ok('A: b\x01\r\n')],
  ['an endless head', `HTTP/1.1 200 OK\r\nA: ${'b'.repeat(2_000)}`],
  ['a head over the limit', ok(`A: ${'b'.repeat(2_000)}\r\n`)],
  ['bytes after the response', ok('Content-Length: 1\r\n', 'ab')],
  ['bytes after the last chunk', ok('Transfer-Encoding: chunked\r\n', '0\r\n\r\nb')],
  ['a body of HEAD or 304', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\n\r\na'],
  ...(
    [
      ['a chunk without a size', 'x\r\n'],
      ['an empty size', '\r\n'],
      ['a signed size', '-1\r\n'],
      ['a size with 0x', '0x1\r\na\r\n'],
      ['an endless size', `${'f'.repeat(14)}\r\n`],
      ['a chunk longer than its size', '1\r\nab\r\n'],
      ['a chunk that ends in a bare line feed', '1\r\na\n'],
      ['a size that ends in a bare line feed', '1\na\r\n'],
      ['a bare carriage return in an extension', '1;a\rb\r\na\r\n'],
      ['an endless extension', `1;${'a'.repeat(5_000)}`],
      ['endless trailers', `0\r\n${'A: b\r\n'.repeat(300)}`],
      ['an invalid trailer', '0\r\nnonsense\r\n\r\n'],
      ['a control character in a trailer', '0\r\nA: \x00\r\n\r\n'],
    ] as const
  ).map(([name, body]): [string, string] => [name, ok('Transfer-Encoding: chunked\r\n', body)]),
];

test.each(refused)('refuses %s, in one piece or many', (_name, text) => {
  expect(() => read([text])).toThrow(ResponseFault);
  expect(() => read(text.split(''))).toThrow(ResponseFault);
});

test('emits one piece per read for chunks of any size', () => {
  const reader = new ResponseReader(1_024);
  const got: string[] = [];
  let ended = false;
  reader.expect('GET', {
    onHead: () => {},
    onData: (chunk) => void got.push(chunk.toString('latin1')),
    onEnd: () => void (ended = true),
  });
  reader.feed(Buffer.from(ok('Transfer-Encoding: chunked\r\n', '1\r\na\r\n'.repeat(1_000)), 'latin1'));
  expect(got).toEqual(['a'.repeat(1_000)]);
  reader.feed(Buffer.from('2\r\nbc\r\n1\r\nd\r\n0\r\n\r\n', 'latin1'));
  expect([got[1], ended]).toEqual(['bcd', true]);
});

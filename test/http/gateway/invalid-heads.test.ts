/** Heads without a body that Node refuses to write: they fail their own request only. */
import { expect, test } from 'vitest';
import { A, P, ask as askHttp2, connected, gatewayTo } from './http2-client.ts';
import { ask, sendRaw, serveTcp, start, type Harness } from './harness.ts';

const heads: [string, string, number][] = [
  ['a trailer announced behind a length', 'HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nContent-Length: 5\r\n\r\n', 200],
  ['a trailer announced where there is no body', 'HTTP/1.1 304 Not Modified\r\nTrailer: X-Sum\r\n\r\n', 304],
  ['a trailer announced before the end of the connection', 'HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\n\r\n', 200],
  ['a trailer announced before chunks', 'HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n', 200],
  ['a status of 600', 'HTTP/1.1 600 Odd\r\nContent-Length: 5\r\n\r\n', 502],
  ['a status of 999', 'HTTP/1.1 999 Odd\r\nContent-Length: 5\r\n\r\n', 502],
];
const rest = (head: string): string => (head.includes('chunked') ? '5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n' : 'hello');

/** Sends the head, and the body a moment later. */
async function instance(head: string): Promise<number> {
  const { port } = await serveTcp((socket) => {
    socket.once('data', () => {
      socket.write(head);
      setTimeout(() => socket.end(rest(head)), 20);
    });
  });
  return port;
}

const good = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

async function stillServes(harness: Harness, get: (path: string) => Promise<{ body: string }>): Promise<void> {
  const { port } = await serveTcp((socket) => void socket.on('data', () => socket.write(good)));
  harness.add(A, { publicPorts: [81], ports: { 81: port } });
  expect((await get(`/forward/${A}/81/`)).body).toBe('ok');
}

test.each(heads)('%s', async (_what, head, status) => {
  const port = await instance(head);
  const harness = await start();
  harness.add(A, { publicPorts: [80], ports: { 80: port } });
  for (const version of ['1.1', '1.0']) {
    const text = await sendRaw(harness, `GET ${P}/ HTTP/${version}\r\nHost: h\r\nConnection: close\r\n\r\n`);
    expect(text.split(' ')[1], version).toBe(String(status));
    expect(/^trailer:/im.test(text), version).toBe(head.includes('chunked') && version === '1.1');
  }
  await stillServes(harness, (at) => ask(harness, at));
  const secure = await gatewayTo(port);
  const session = await connected(secure);
  expect((await askHttp2(session, `${P}/`)).status).toBe(status);
  await stillServes(secure, (at) => askHttp2(session, at));
});

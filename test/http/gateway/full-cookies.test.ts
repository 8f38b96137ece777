/** Browsers with too many cookies at the gateway. */
import { expect, test } from 'vitest';
import { ask, idOf, sendRaw, serveTcp, start } from './harness.ts';

const jar = (cookies: number): string =>
  Array.from({ length: cookies }, (_, at) => `c${at}=${'v'.repeat(3_900)}`).join('; ');
const A = idOf('a');
const PAGE = { accept: 'text/html' };

test('forwards eight large cookies, and answers more with a page whose button clears them', async () => {
  // Node's own server reads 16 KiB.
  const inside = await serveTcp((socket) =>
    socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')),
  );
  const harness = await start();
  harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
  const at = `/forward/${A}/80/`;
  expect((await ask(harness, at, { headers: { ...PAGE, cookie: jar(8) } })).body).toBe('ok');
  const full = await ask(harness, at, { headers: { ...PAGE, cookie: jar(9) } });
  expect([full.status, full.headers['content-type'], full.headers['x-error-code']]).toEqual([
    431,
    'text/html; charset=utf-8',
    'headers_too_large',
  ]);
  expect(full.headers['content-security-policy']).toContain("form-action 'self'");
  expect(full.body).toContain('<form method="post" action="/.berth/cookies">');
  const own = { ...PAGE, cookie: jar(9), origin: harness.origin };
  const cleared = await ask(harness, '/.berth/cookies', { method: 'POST', headers: own });
  expect([cleared.status, cleared.headers['clear-site-data']]).toEqual([200, '"cookies"']);
  expect(cleared.headers['set-cookie']).toHaveLength(9);
  for (const origin of ['http://elsewhere.test', 'null']) {
    const foreign = await ask(harness, '/.berth/cookies', { method: 'POST', headers: { ...own, origin } });
    expect([foreign.status, foreign.headers['clear-site-data']]).toEqual([403, undefined]);
  }
});

test('answers a head beyond what is parsed by a page where its start asks for one', async () => {
  const harness = await start();
  const head = (accept: string): string =>
    `GET / HTTP/1.1\r\nHost: h\r\nAccept: ${accept}\r\nCookie: ${jar(17)}\r\n\r\n`;
  expect(await sendRaw(harness, head('text/html'))).toContain('<form method="post" action="/.berth/cookies">');
  expect(await sendRaw(harness, head('*/*'))).toMatch(/^HTTP\/1\.1 431 [^]*\r\n\r\n\{"message"/);
});

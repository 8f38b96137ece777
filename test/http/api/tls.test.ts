/**
 * The API's own TLS: routes, streams and the cookie, certificate renewal at run time, and a prompt
 * shutdown.
 */
import { once } from 'node:events';
import { request, type RequestOptions } from 'node:https';
import { connect, type TLSSocket } from 'node:tls';
import { connect as connectTcp } from 'node:net';
import { generate } from 'selfsigned';
import { expect, onTestFinished, test } from 'vitest';
import { startEdge, type BareApi } from './harness.ts';
import { fakeControl } from './fake-control.ts';

interface Pair {
  cert: string;
  key: string;
}

async function pairFor(name: string): Promise<Pair> {
  const made = await generate([{ name: 'commonName', value: name }], { keyType: 'ec' });
  return { cert: made.cert, key: made.private };
}

async function secured(): Promise<{ api: BareApi; renew: (pair: Pair) => void }> {
  const followers: ((pair: Pair) => void)[] = [];
  const tls = {
    first: await pairFor('first.test'),
    follow: (taken: (pair: Pair) => void) => void followers.push(taken),
  };
  const login = async () => ({ accessToken: 'token', accessExpire: 60 });
  const api = await startEdge(fakeControl({ access: { login } }), { tls, secureCookies: true, bodyTimeoutMs: 300 });
  onTestFinished(() => api.stop());
  const renew = (pair: Pair): void => {
    for (const taken of followers) taken(pair);
  };
  return { api, renew };
}

const ask = (api: BareApi, path: string, more: RequestOptions = {}, body = '') =>
  new Promise<{ status: number; text: string; cookie: string | undefined }>((resolve, reject) => {
    const asked = request({
      port: api.port,
      host: '127.0.0.1',
      path,
      rejectUnauthorized: false,
      agent: false,
      ...more,
    });
    asked.on('error', reject).on('response', (res) => {
      let text = '';
      res.on('data', (piece: Buffer) => (text += piece.toString()));
      res.on('end', () => resolve({ status: res.statusCode ?? 0, text, cookie: res.headers['set-cookie']?.[0] }));
    });
    asked.end(body);
  });

async function handshake(api: BareApi): Promise<TLSSocket> {
  const socket = connect({ port: api.port, host: '127.0.0.1', rejectUnauthorized: false });
  socket.on('error', () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, 'secureConnect');
  return socket;
}

test('answers over TLS with a Secure cookie, and uses a renewed certificate', async () => {
  const { api, renew } = await secured();
  expect(await ask(api, '/healthz')).toMatchObject({ status: 200, text: '{"alive":true}' });
  const headers = { 'content-type': 'application/json' };
  const login = await ask(api, '/api/user/login', { method: 'POST', headers }, '{"username":"a","password":"b"}');
  expect(login.cookie).toBe('AccessToken=token; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure');
  const before = await handshake(api);
  expect(before.getPeerCertificate().subject.CN).toBe('first.test');
  renew(await pairFor('second.test'));
  expect((await handshake(api)).getPeerCertificate().subject.CN).toBe('second.test');
  expect(before.destroyed).toBe(false);
});

test('plain HTTP and old TLS versions get no answer, and disturb no other client', async () => {
  const { api } = await secured();
  const plain = connectTcp(api.port, '127.0.0.1');
  plain.on('error', () => {}).write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  let got = '';
  plain.on('data', (piece: Buffer) => (got += piece.toString('latin1')));
  await once(plain, 'close');
  expect(got).not.toContain('HTTP/1.1 200');
  const old = connect({
    port: api.port,
    host: '127.0.0.1',
    rejectUnauthorized: false,
    maxVersion: 'TLSv1.1',
    minVersion: 'TLSv1.1',
  });
  await expect(once(old, 'secureConnect')).rejects.toThrow();
  expect((await ask(api, '/healthz')).status).toBe(200);
});

test('enforces the limits of plain HTTP: large headers, stalled bodies', async () => {
  const { api } = await secured();
  expect((await ask(api, '/healthz', { headers: { 'x-large': 'x'.repeat(100_000) } })).status).toBe(431);
  const slow = await handshake(api);
  let got = '';
  slow.on('data', (piece: Buffer) => (got += piece.toString('latin1')));
  slow.write(
    'POST /api/user/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{',
  );
  await once(slow, 'close');
  expect(got).toContain('HTTP/1.1 408');
});

test('closes at once, with idle connections open', async () => {
  const { api } = await secured();
  const spare = await handshake(api);
  const used = await handshake(api);
  used.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await once(used, 'data');
  let got = '';
  spare.on('data', (piece: Buffer) => (got += piece.toString('latin1')));
  await api.stop();
  await expect.poll(() => spare.destroyed && used.destroyed).toBe(true);
  // A connection without a request is answered 408 at the head timeout; the stop came first.
  expect(got).toBe('');
});

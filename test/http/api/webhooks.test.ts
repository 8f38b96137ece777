/** Requests of webhooks against real receivers over TLS, good and hostile. */
import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { Socket, type LookupFunction } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { generate } from 'selfsigned';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { realTime } from '../../../src/control/kernel/time.ts';
import { makeSendWebhook, type SendWebhookOptions } from '../../../src/control/delivery/webhooks/send-webhook.ts';
import { messageId, newWebhookSecret, signedHeaders } from '../../../src/control/delivery/webhooks/sign-webhook.ts';

const NAME = 'hooks.test';
let server: Server;
let ca: string;
let port: number;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let requests = 0;

beforeAll(async () => {
  const extensions = [{ name: 'subjectAltName' as const, altNames: [{ type: 2 as const, value: NAME }] }];
  const made = await generate([{ name: 'commonName', value: NAME }], { keyType: 'ec', extensions });
  ca = made.cert;
  server = createServer({ cert: made.cert, key: made.private }, (request, response) => {
    requests += 1;
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  port = typeof address === 'object' && address !== null ? address.port : 0;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  requests = 0;
});

const secret = newWebhookSecret((size) => new Uint8Array(size).fill(5));
const body = JSON.stringify({ type: 'webhook.test', data: { text: 'ü ⚓' } });
function isRefused(received: string, headers: Record<string, string>): boolean {
  try {
    new Webhook(secret).verify(received, headers);
    return false;
  } catch {
    return true;
  }
}

const never = new AbortController().signal;

const send = (more: Partial<SendWebhookOptions> = {}, stopping = never) => {
  const sendWebhook = makeSendWebhook({
    time: realTime,
    anyAddress: true,
    ca,
    resolve: async () => ['127.0.0.1'],
    ...more,
  });
  const id = messageId('webhook', 'account', 7);
  const headers = signedHeaders(secret, { id, atMs: Date.now(), body });
  return sendWebhook({ url: `https://${NAME}:${port}/path?x=1`, headers, body }, stopping);
};

test('are verified by the library of Standard Webhooks, and carry the name in Host and SNI', async () => {
  const seen: unknown[] = [];
  answer = (request, response) => {
    void text(request).then((received) => {
      const { headers, socket, url, method } = request;
      const given = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
      const { servername } = socket as TLSSocket & { servername: string };
      seen.push(new Webhook(secret).verify(received, given), headers.host, servername, url, method);
      seen.push(isRefused(`${received} `, given));
      response.end('thanks');
    });
  };
  expect(await send()).toMatchObject({ delivered: true, status: 200, answer: 'thanks' });
  expect(seen).toEqual([JSON.parse(body), `${NAME}:${port}`, NAME, '/path?x=1', 'POST', true]);
});

/** Connects to the receiver instead, and lists the addresses that a connection asked for. */
function redirectConnections(): unknown[] {
  const asked: unknown[] = [];
  const { connect } = Socket.prototype;
  const spy = vi.spyOn(Socket.prototype, 'connect').mockImplementation(function (this: Socket, ...given: unknown[]) {
    const [options, done] = given as [{ lookup: LookupFunction }, () => void];
    const lookup: LookupFunction = (name, how, found) =>
      options.lookup(name, { ...how, all: true }, (error, addresses) => {
        asked.push(addresses);
        found(error, [{ address: '127.0.0.1', family: 4 }]);
      });
    return Reflect.apply(connect, this, [{ ...options, lookup }, done]);
  });
  onTestFinished(() => spy.mockRestore());
  return asked;
}

test.each([
  ['IPv4', ['93.184.215.14']],
  ['IPv6', ['2606:2800:21f:cb07:6820:80da:af6b:8b2c']],
  ['both', ['140.82.121.4', '2a01:4f8:c0c:1::5']],
])('arrive by the default check at a name with public addresses (%s)', async (_, addresses) => {
  const asked = redirectConnections();
  answer = (request, response) => {
    void text(request).then((received) => {
      const given = Object.entries(request.headers).map(([name, value]) => [name, String(value)]);
      response.end(JSON.stringify(new Webhook(secret).verify(received, Object.fromEntries(given))));
    });
  };
  const result = await send({ anyAddress: false, resolve: async () => addresses });
  expect(result).toMatchObject({ delivered: true, status: 200, answer: body });
  expect(asked).toEqual([addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))]);
});

test('are refused at private addresses, also if one of several addresses is private', async () => {
  for (const addresses of [['127.0.0.1'], ['93.184.215.14', '10.0.0.1'], ['::1'], ['169.254.169.254'], ['fd00::1']])
    expect(await send({ anyAddress: false, resolve: async () => addresses })).toMatchObject({
      delivered: false,
      status: 0,
      answer: expect.stringMatching(/only public addresses are allowed/),
    });
  expect(requests).toBe(0);
});

test('connect to the address that was checked, when the name changes meanwhile', async () => {
  let asked = 0;
  const rebinding = async (): Promise<string[]> => {
    asked += 1;
    return asked === 1 ? ['192.0.2.1'] : ['127.0.0.1'];
  };
  // The first address is of no network: a request that arrives came by a second look at the name.
  const result = await send({ resolve: rebinding, timeoutMs: 500 });
  expect(result).toMatchObject({ delivered: false, status: 0 });
  expect({ asked, requests }).toEqual({ asked: 1, requests: 0 });
});

test('fail by a status of refusal, and follow no redirect', async () => {
  answer = (_, response) => void response.writeHead(503).end('busy\u0000\u001b');
  expect(await send()).toMatchObject({ delivered: false, status: 503, answer: 'busy  ' });
  answer = (_, response) => void response.writeHead(302, { location: `https://${NAME}:${port}/other` }).end();
  expect(await send()).toMatchObject({ delivered: false, status: 302, answer: expect.stringMatching(/not followed/) });
  expect(requests).toBe(2);
});

test('fail by a receiver that hangs, resets, or has no certificate for the name', async () => {
  answer = () => {};
  expect(await send({ timeoutMs: 300 })).toMatchObject({ status: 0, answer: 'no answer within 0.3 s' });
  answer = ({ socket }) => socket.destroy();
  expect(await send()).toMatchObject({ delivered: false, status: 0, answer: expect.stringMatching(/socket|reset/i) });
  expect(await send({ ca: '' })).toMatchObject({ status: 0, answer: expect.stringMatching(/certificate/) });
  expect(await send({ resolve: () => new Promise(() => {}), timeoutMs: 200 })).toMatchObject({ delivered: false });
});

test('read at most 4 KB of an answer without end, and wait no longer than their limit for a slow one', async () => {
  let written = 0;
  answer = (_, response) => {
    response.writeHead(200);
    const more = (): void => {
      while (!response.destroyed && written < 200_000_000 && response.write('x'.repeat(65_536))) written += 65_536;
    };
    response.on('drain', more);
    more();
  };
  expect(await send()).toMatchObject({ delivered: true, status: 200, answer: 'x'.repeat(1_000) });
  expect(written).toBeLessThan(50_000_000);
  answer = (_, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write('.'), 20);
    response.once('close', () => clearInterval(timer));
  };
  const slow = await send({ bodyMs: 200 });
  expect(slow).toMatchObject({ delivered: true, answer: expect.stringMatching(/^\.+$/) });
});

test('end with the server', async () => {
  const stopping = new AbortController();
  answer = () => stopping.abort();
  expect(await send({}, stopping.signal)).toMatchObject({ delivered: false, status: 0 });
});

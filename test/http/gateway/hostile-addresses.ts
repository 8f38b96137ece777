/** Hosts, upgrades and addresses: the gateway connects to the instance of the path or host only. */
import { expect } from 'vitest';
import { ALICE, API_ORIGIN, jwtOf } from './harness.ts';
import { A, answerOf, finalOf, isWhole, OK, PATH, request } from './hostile-harness.ts';
import type { Hostile, Seen } from './hostile-harness.ts';

/** Addresses that an instance could try to reach through the gateway. */
const internal: readonly string[] = [
  'http://127.0.0.1:8080/api/user/info',
  'http://localhost:2375/containers/json',
  'http://[::1]:8080/',
  'http://0.0.0.0:8081/',
  'http://2130706433/',
  'http://0x7f.1/',
  'http://169.254.169.254/latest/meta-data/',
  'http://metadata.google.internal/computeMetadata/v1/',
  'http://instance.invalid/',
  'unix:///var/run/docker.sock',
  'http+unix://%2Fvar%2Frun%2Fdocker.sock/info',
  'file:///etc/passwd',
  'gopher://127.0.0.1:6379/_x',
  '//169.254.169.254/',
  '/\\169.254.169.254/',
];

const staysOutside =
  (status: number, location: string) =>
  ({ answer, dials, upstreamRequests }: Seen): void => {
    expect(finalOf(answer)).toMatchObject({ status, rest: '' });
    expect(/^location: (.*)\r$/im.exec(answer)?.[1]).toBe(location);
    expect([dials, upstreamRequests.length]).toEqual([[`${A}:80`], 1]);
  };

const redirects: Hostile[] = internal.map((location, at) => {
  const status = [301, 302, 303, 307, 308][at % 5] ?? 302;
  return {
    name: `a redirect (${status}) to ${location} stays with the client`,
    inside: `HTTP/1.1 ${status} Moved\r\nLocation: ${location}\r\nContent-Length: 0\r\n\r\n`,
    holds: staysOutside(status, location),
  };
});

const goesInAs =
  (host: string) =>
  ({ answer, upstreamRequests }: Seen): void => {
    expect(finalOf(answer).status).toBe(200);
    expect(upstreamRequests[0]?.match(/^host:.*(?=\r)/gim)?.map((line) => line.slice(5).trim())).toEqual([host]);
  };

const asOwner = `Authorization: Bearer ${jwtOf(ALICE)}`;
const nobodyIsAsked = ({ dials, answer }: { dials: string[]; answer: string }): void => {
  expect(dials).toEqual([]);
  expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
  expect(answer).not.toMatch(/\r\n\r\nok$/);
};

/** Used in place of instance and port. */
const addresses: readonly string[] = [
  '/forward/127.0.0.1/8080/',
  '/forward/localhost/2375/',
  '/forward/169.254.169.254/80/',
  '/forward/[::1]/80/',
  '/forward/0/80/',
  '/forward/%2Fvar%2Frun%2Fdocker.sock/80/',
  '/notebook/127.0.0.1/',
  '/notebook/unix:/',
  `/forward/${A}@127.0.0.1/80/`,
  `/forward/${A}%40127.0.0.1/80/`,
  `/forward/${A}.127.0.0.1/80/`,
  `/forward/${A}/80@127.0.0.1:8080/`,
  `/forward/${A}/80%40127.0.0.1/`,
  `/forward/${A}/127.0.0.1:8080/`,
  `/forward/${A}/unix:%2Fvar%2Frun%2Fdocker.sock/`,
  `/forward/${A}/-1/`,
  `/forward/${A}/0/`,
  `/forward/${A}/65536/`,
  `/forward/notebook-${'0'.repeat(8)}-0000-0000-0000-${'0'.repeat(12)}/80/`,
  `/forward/notebook-127.0.0.1/80/`,
  '/http://127.0.0.1:8080/',
  '/proxy?url=http://127.0.0.1:8080/',
];

const hosts: readonly string[] = [
  '80-127.0.0.1.gpu.test',
  '80-localhost.gpu.test',
  '2375-.gpu.test',
  '127.0.0.1',
  '169.254.169.254',
  'instance.invalid',
  `80-${A}.gpu.test.evil`,
  `-80-${A}.gpu.test`,
  `80-${A}_.gpu.test`,
];

const KEY = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
const upgrade = (lines: readonly string[], { first = `GET ${PATH}/ HTTP/1.1` } = {}): string =>
  `${first}\r\n${['Host: h', ...lines].join('\r\n')}\r\n\r\n`;
const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n';

export const hostileAddresses: Hostile[] = [
  ...redirects,
  ...addresses.map((path): Hostile => ({
    name: `the address ${path}`,
    sent: request([asOwner], { path }),
    holds: nobodyIsAsked,
  })),
  ...hosts.map((host): Hostile => ({
    name: `the host ${host}`,
    sent: request([asOwner], { host, path: '/' }),
    holds: nobodyIsAsked,
  })),
  {
    name: 'selects the instance by the path, whatever the Host',
    sent: request([], { host: '169.254.169.254' }),
    holds: ({ dials, upstreamRequests }) => {
      expect(dials).toEqual([`${A}:80`]);
      expect(upstreamRequests[0]).toMatch(/^host: 169\.254\.169\.254\r$/im);
    },
  },
  ...['', 'h:', 'h:99999', '[::1]:80', 'H.', 'a..b', '_x', '-', 'xn--nxasmq6b', '1.2.3.4:5'].map((host): Hostile => ({
    name: `the odd host ${host || '(none)'} is forwarded unchanged`,
    sent: request([], { host }),
    holds: goesInAs(host),
  })),
  ...['h,i', 'h i', 'h@i', 'h#', 'h?', 'h%00', 'h*', '(h)', 'h;', `h${'x'.repeat(300)}`, '\xe9.test', 'h\x7f'].map(
    (host): Hostile => ({
      name: `the host ${JSON.stringify(host).slice(0, 30)} is refused`,
      sent: request([], { host }),
      holds: nobodyIsAsked,
    }),
  ),
  {
    name: 'never requests the hosts named in response headers',
    inside: answerOf([
      'Refresh: 0; url=http://169.254.169.254/',
      'Link: <http://127.0.0.1:8080/>; rel=preconnect',
      'Content-Location: http://127.0.0.1/',
    ]),
    holds: ({ dials, answer }) => {
      expect(finalOf(answer).status).toBe(200);
      expect(dials).toEqual([`${A}:80`]);
    },
  },
  {
    name: 'passes on a 401 of an instance without answering it',
    inside: 'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n',
    sent: request([asOwner], { path: `/notebook/${A}/` }),
    holds: ({ answer, upstreamRequests }) => {
      expect(finalOf(answer).status).toBe(401);
      expect(upstreamRequests).toHaveLength(1);
    },
  },
  {
    name: 'does not answer a 407 of an instance, and removes its challenge',
    inside: 'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n',
    holds: ({ answer, upstreamRequests }) => {
      expect(answer).not.toMatch(/proxy-authenticate/i);
      expect(upstreamRequests).toHaveLength(1);
    },
  },
  {
    name: 'forwards an upgrade without a key, and the instance’s refusal',
    inside: 'HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno',
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket']),
    holds: (seen) => {
      expect(finalOf(seen.answer)).toMatchObject({ status: 400, rest: 'no' });
      expect(isWhole(seen)).toBe(true);
      for (const line of [/^connection: upgrade\r/im, /^upgrade: websocket\r/im])
        expect(seen.upstreamRequests[0]).toMatch(line);
    },
  },
  {
    name: 'forwards both keys of an upgrade with two keys',
    inside: 'HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno',
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY, KEY]),
    holds: ({ upstreamRequests }) => expect(upstreamRequests[0]?.match(/^sec-websocket-key:/gim)).toHaveLength(2),
  },
  {
    name: 'accepts or refuses an upgrade with a length of zero',
    inside: `${SWITCH}\r\nhi`,
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY, 'Content-Length: 0']),
    holds: ({ answer }) => expect(answer).toMatch(/^HTTP\/1\.1 (101|400) /),
  },
  {
    name: 'refuses an upgrade with chunks',
    sent: `${upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY, 'Transfer-Encoding: chunked'])}0\r\n\r\n`,
    holds: nobodyIsAsked,
  },
  {
    name: 'treats an upgrade by POST as a plain request',
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY], { first: `POST ${PATH}/ HTTP/1.1` }),
    holds: ({ answer, upstreamRequests }) => {
      expect(answer).toMatch(/^HTTP\/1\.1 200 /);
      expect(upstreamRequests[0]).not.toMatch(/^upgrade:/im);
    },
  },
  {
    name: 'treats an upgrade that Connection does not name as a plain request',
    sent: upgrade(['Upgrade: websocket', KEY, 'Connection: close']),
    holds: ({ answer, upstreamRequests }) => {
      expect(answer).toMatch(/^HTTP\/1\.1 200 /);
      expect(upstreamRequests[0]).not.toMatch(/^upgrade:/im);
    },
  },
  {
    name: 'removes other headers named in Connection from an upgrade',
    inside: `${SWITCH}\r\n`,
    sent: upgrade([
      'Connection: Upgrade, X-Mine',
      'Upgrade: websocket',
      KEY,
      'X-Mine: 1',
      'Keep-Alive: 1',
      'TE: trailers',
    ]),
    holds: ({ upstreamRequests }) => expect(upstreamRequests[0]).not.toMatch(/^(x-mine|keep-alive|te):/im),
  },
  {
    name: 'a 101 with Berth cookies and headers for the whole origin',
    inside: `${SWITCH}Set-Cookie: berth_gateway=evil\r\nSet-Cookie: =evil\r\nStrict-Transport-Security: evil\r\nAlt-Svc: evil\r\nConnection: X-Evil\r\nX-Evil: evil\r\n\r\nhi`,
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY]),
    holds: ({ answer }) => {
      expect(answer).toMatch(/^HTTP\/1\.1 101 [^]*\r\n\r\nhi$/);
      expect(answer).not.toMatch(/evil/i);
      expect(answer.match(/^(connection|upgrade):/gim)).toHaveLength(2);
    },
  },
  {
    name: 'a 101 to another protocol than requested',
    inside: 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nraw',
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY]),
    holds: ({ answer }) => {
      expect(answer).toMatch(/^HTTP\/1\.1 502 /);
      expect(answer).not.toMatch(/raw$/);
    },
  },
  {
    name: 'a 101 without a protocol',
    inside: 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\nraw',
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY]),
    holds: ({ answer }) => {
      expect(answer).toMatch(/^HTTP\/1\.1 502 /);
      expect(answer).not.toMatch(/raw$/);
    },
  },
  {
    name: 'a WebSocket answered with 103, then refused',
    inside: `HTTP/1.1 103 Early Hints\r\nLink: <evil>\r\n\r\n${OK}`,
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY]),
    holds: (seen) => {
      expect(finalOf(seen.answer)).toMatchObject({ status: 200, rest: 'ok' });
      expect(seen.answer).not.toMatch(/evil/);
    },
  },
  {
    name: 'a WebSocket refused with a redirect to the API',
    inside: `HTTP/1.1 302 Found\r\nLocation: ${API_ORIGIN}/api/user/info\r\nContent-Length: 0\r\n\r\n`,
    sent: upgrade(['Connection: Upgrade', 'Upgrade: websocket', KEY]),
    holds: ({ answer, dials }) => {
      expect(finalOf(answer).status).toBe(302);
      expect(dials).toEqual([`${A}:80`]);
    },
  },
];

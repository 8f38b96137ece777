/**
 * Attempts to bypass access control, each as raw bytes of one connection. Most target the closed
 * address, some start at an open one (`OWN`) and rely on parser differences.
 */
import { jwtOf } from './harness.ts';
import { A, DOMAIN, HANDSHAKE, OWN, OWNER_CREDENTIALS, plain, upgrade } from './access-matrix.ts';
import type { ProtectedTarget } from './access-matrix.ts';
import { hosts, spellings } from './path-spellings.ts';

export interface BypassAttempt {
  name: string;
  /** Parts to send, each after the response to the previous; `null`: not applicable. */
  bytes: (target: ProtectedTarget, auth: readonly string[]) => string | readonly string[] | null;
  /** Number of authorized requests of the owner in the attempt. */
  owner?: number;
}

const bySpelling = Object.entries(spellings).map(([name, spell]): BypassAttempt => ({
  name: `path: ${name}`,
  bytes: (target, auth) => {
    const id = /notebook-[0-9a-f-]{36}/.exec(target.host + target.path)?.[0] ?? A;
    // Gateway paths on a port host.
    const path = target.host === DOMAIN ? target.path : `/forward/${id}/${target.port}/`;
    return plain({ host: DOMAIN, path: spell(path, id, target.port) }, auth);
  },
}));

const isHost = ({ host }: ProtectedTarget): boolean => host !== DOMAIN;
const raw = (target: string, lines: readonly string[], version = '1.1'): string =>
  `GET ${target} HTTP/${version}\r\n${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`;

const byHostName: BypassAttempt[] = [
  ...Object.entries(hosts).map(([name, spell]): BypassAttempt => ({
    name: `host: ${name}`,
    bytes: (target, auth) => (isHost(target) ? plain({ ...target, host: spell(target.host) }, auth) : null),
  })),
  ...(
    [
      [
        'twice, the closed host first',
        ({ path, host }, auth) => raw(path, [`Host: ${host}`, `Host: ${OWN.hostOfPort}`, ...auth]),
      ],
      [
        'twice, the closed host last',
        ({ path, host }, auth) => raw(path, [`Host: ${OWN.hostOfPort}`, `Host: ${host}`, ...auth]),
      ],
      ['the closed host twice', ({ path, host }, auth) => raw(path, [`Host: ${host}`, `host: ${host}`, ...auth])],
      ['folded', ({ path, host }, auth) => raw(path, [`Host: ${OWN.hostOfPort}`, ` ${host}`, ...auth])],
      [
        'folded before',
        ({ path, host }, auth) => raw(path, ['X: y', ` Host: ${host}`, `Host: ${OWN.hostOfPort}`, ...auth]),
      ],
      ['with a space before the colon', ({ path, host }, auth) => raw(path, [`Host : ${host}`, ...auth])],
      ['after a bare line feed', ({ path, host }, auth) => raw(path, [`X: y\nHost: ${host}`, ...auth])],
      ['missing, in HTTP/1.1', ({ path, host }, auth) => raw(path, [`X-Forwarded-Host: ${host}`, ...auth])],
      ['missing, in HTTP/1.0', ({ path, host }, auth) => raw(path, [`X-Forwarded-Host: ${host}`, ...auth], '1.0')],
      ['empty', ({ path, host }, auth) => raw(path, ['Host:', `X-Forwarded-Host: ${host}`, ...auth])],
      [
        'an open host, and the closed one in the absolute form',
        ({ path, host }, auth) => raw(`http://${host}${path}`, [`Host: ${OWN.hostOfPort}`, ...auth]),
      ],
      [
        'the closed host, and an open one in the absolute form',
        ({ path, host }, auth) => raw(`http://${OWN.hostOfPort}${path}`, [`Host: ${host}`, ...auth]),
      ],
      [
        'an open host, and the closed path',
        ({ path, port }, auth) =>
          raw(isOwnPath(path) ? path : `/forward/${A}/${port}/`, [`Host: ${OWN.hostOfPort}`, ...auth]),
      ],
      [
        'an open host, and dots up to the closed path',
        ({ path, port }, auth) =>
          raw(`/..${isOwnPath(path) ? path : `/forward/${A}/${port}/`}`, [`Host: ${OWN.hostOfPort}`, ...auth]),
      ],
      ['127.0.0.1, and the closed path', ({ path }, auth) => raw(path, ['Host: 127.0.0.1', ...auth])],
      ['localhost, and the closed path', ({ path }, auth) => raw(path, ['Host: localhost', ...auth])],
      ['instance.invalid, and the closed path', ({ path }, auth) => raw(path, ['Host: instance.invalid', ...auth])],
    ] as [string, BypassAttempt['bytes']][]
  ).map(([name, bytes]) => ({ name: `host: ${name}`, bytes })),
];

const isOwnPath = (path: string): boolean => path.length > 1;

/** Headers that some servers trust. */
const trusted = (target: ProtectedTarget): Record<string, string> => ({
  'X-Original-URL': target.path,
  'X-Rewrite-URL': target.path,
  'X-Original-URI': target.path,
  'X-Forwarded-Uri': target.path,
  'X-Forwarded-Path': target.path,
  'X-Forwarded-Prefix': target.path,
  'X-Accel-Redirect': target.path,
  'X-Sendfile': target.path,
  'X-Forwarded-Host': target.host,
  'X-Original-Host': target.host,
  'X-Host': target.host,
  'X-HTTP-Host-Override': target.host,
  'X-Forwarded-Server': target.host,
  ':authority': target.host,
  'X-Forwarded-Port': String(target.port),
  'X-Forwarded-Proto': 'https',
  'X-Forwarded-For': '127.0.0.1',
  'X-Real-IP': '127.0.0.1',
  'X-Client-IP': '127.0.0.1',
  'X-Cluster-Client-IP': '127.0.0.1',
  'True-Client-IP': '127.0.0.1',
  'CF-Connecting-IP': '127.0.0.1',
  'X-Originating-IP': '127.0.0.1',
  Forwarded: `for=127.0.0.1;host="${target.host}";proto=https`,
  Via: '1.1 gateway',
  'X-Forwarded-User': 'account-alice',
  'X-Remote-User': 'account-alice',
  'Remote-User': 'account-alice',
  'X-Auth-Request-User': 'account-alice',
  'X-WEBAUTH-USER': 'account-alice',
  'X-Forwarded-Access-Token': jwtOf('nobody'),
  'X-Account-Id': 'account-alice',
  'X-Berth-Account': 'account-alice',
  'X-Berth-Owner': 'account-alice',
  'X-Berth-Share': 'x',
  'X-Internal': '1',
  'X-HTTP-Method-Override': 'OPTIONS',
  'X-HTTP-Method': 'OPTIONS',
  'X-Method-Override': 'OPTIONS',
  Upgrade: 'h2c',
  'HTTP2-Settings': 'AAMAAABkAAQAAP__',
  Origin: `http://${target.host}`,
  Referer: `http://${target.host}${target.path}`,
  'Sec-Fetch-Site': 'same-origin',
  'Sec-Fetch-Mode': 'navigate',
  'Service-Worker': 'script',
  'Access-Control-Request-Method': 'GET',
  'Proxy-Authorization': `Basic ${Buffer.from('alice:').toString('base64')}`,
  Authorization: `Basic ${Buffer.from('account-alice:').toString('base64')}`,
  authorization: `Bearer ${jwtOf('account-alice', 'https://another.issuer')}`,
  AUTHORIZATION: 'Bearer undefined',
  'Authorization ': `Bearer ${jwtOf('nobody')}`,
  X_API_Key: 'berth_account-alice',
  Cookie: `AccessToken=${jwtOf('nobody')}`,
  cookie: 'berth_gateway=account-alice',
  COOKIE: '__Host-berth_gateway=session-m',
  Cookie2: '$Version=1',
});

const NAMES = Object.keys(trusted({ name: '', host: '', path: '', port: 0, forAccounts: false }));

const byHeader = NAMES.flatMap((name): BypassAttempt[] => [
  {
    name: `header: ${name} at the closed address`,
    bytes: (target, auth) => plain(target, [...auth, `${name}: ${trusted(target)[name]}`]),
  },
  {
    name: `header: ${name} at an open address`,
    bytes: (target, auth) => plain(OWN, [...auth, `${name}: ${trusted(target)[name]}`]),
  },
]);

const cookies: readonly string[] = [
  '__Host-berth_gateway=session-m',
  '__Secure-berth_gateway=session-m',
  'Berth_Gateway=session-m',
  ' berth_gateway = session-x ',
  '"berth_gateway"=session-m',
  'berth_gateway="session-m"',
  "berth_gateway='session-m'",
  'berth_gateway%3dsession-m',
  '%62erth_gateway=session-m',
  'berth_gateway=session-m; berth_gateway=session-x',
  'berth_gateway=session-x; berth_gateway=session-m',
  'berth_gateway=session-m, berth_gateway=session-x',
  'berth_gateway=; berth_gateway=session-m',
  'berth_gateway=session%2da',
  'berth_gateway=session',
  'berth_gateway=session-a\xad',
  'berth_gateway=Session-A',
  'berth_gateway=session-a.',
  'berth_gateway=session-a%00',
  '$Version=1; berth_gateway=session-x; $Path=/; $Domain=gpu.test',
  '=berth_gateway=session-m',
  'x="; berth_gateway=session-x; y="',
  'berth_gateway=__proto__',
  'berth_gateway=toString',
  'berth_gateway=constructor',
  'berth_share=__proto__',
  'berth_share=of-83',
  '__Secure-berth_share=of-83',
  'berth_share=of-83; berth_share=x',
  `AccessToken=${jwtOf('account-mallory')}`,
];

const byCookie = cookies.map((cookie): BypassAttempt => ({
  name: `cookie: ${cookie}`,
  bytes: (target, auth) => plain(target, [...auth, `Cookie: ${cookie}`, 'Sec-Fetch-Site: none']),
}));

const METHODS = [
  'HEAD',
  'OPTIONS',
  'POST',
  'PUT',
  'DELETE',
  'PATCH',
  'PROPFIND',
  'PURGE',
  'QUERY',
  'TRACE',
  'get',
  'PRI',
];
const byMethod: BypassAttempt[] = [
  ...METHODS.map((method): BypassAttempt => ({
    name: `method: ${method}`,
    bytes: (target, auth) => plain(target, auth, { method }),
  })),
  {
    name: 'method: CONNECT to the path',
    bytes: (target, auth) => plain(target, auth, { method: 'CONNECT' }),
  },
  {
    name: 'method: CONNECT to the host',
    bytes: ({ host, port }, auth) => plain({ host, path: `${host}:${port}` }, auth, { method: 'CONNECT' }),
  },
  {
    name: 'method: CONNECT to the instance',
    bytes: ({ host, port }, auth) => plain({ host, path: `${A}:${port}` }, auth, { method: 'CONNECT' }),
  },
  {
    name: 'method: an override in the query',
    bytes: ({ host, path }, auth) => plain({ host, path: `${path}?_method=OPTIONS` }, auth),
  },
  { name: 'method: GET of HTTP/0.9', bytes: ({ path }) => `GET ${path}\r\n\r\n` },
  { name: 'method: GET of HTTP/1.0', bytes: (target, auth) => plain(target, auth, { version: '1.0' }) },
  {
    name: 'query: a notebook token',
    bytes: ({ host, path }, auth) => plain({ host, path: `${path}?token=x` }, auth),
  },
  {
    name: 'query: an unknown link token',
    bytes: ({ host, path }, auth) => plain({ host, path: `${path}?berth_share=x` }, auth),
  },
  {
    name: 'query: a link to another port',
    bytes: ({ host, path }, auth) => plain({ host, path: `${path}?berth_share=of-83` }, auth),
  },
  {
    name: 'query: an API key',
    bytes: ({ host, path }, auth) => plain({ host, path: `${path}?api_key=berth_account-mallory` }, auth),
  },
];

const open = (target: { host: string; path: string }, auth: readonly string[], ...lines: string[]): string =>
  `POST ${target.path} HTTP/1.1\r\n${['Host: ' + target.host, ...auth, ...lines].join('\r\n')}\r\n\r\n`;
const goOn = ({ host, path }: { host: string; path: string }, auth: readonly string[]): string =>
  `GET ${path} HTTP/1.1\r\n${['Host: ' + host, ...auth].join('\r\n')}\r\n\r\n`;

/** A second request behind or within an authorized one. */
const byFraming: BypassAttempt[] = (
  [
    ['behind an authorized request', (target, auth) => goOn(OWN, auth) + plain(target, auth)],
    ['behind nine authorized requests', (target, auth) => goOn(OWN, auth).repeat(9) + plain(target, auth)],
    ['before an authorized request', (target, auth) => goOn(target, auth) + plain(OWN, auth)],
    ['behind empty lines', (target, auth) => `\r\n\r\n${plain(target, auth)}`],
    [
      'as the body of an authorized request',
      (target, auth) =>
        open(OWN, [...auth, 'Connection: close'], `Content-Length: ${plain(target, auth).length}`) +
        plain(target, auth),
    ],
    [
      'as a chunk of an authorized request',
      (target, auth) =>
        `${open(OWN, [...auth, 'Connection: close'], 'Transfer-Encoding: chunked')}${plain(target, auth).length.toString(16)}\r\n${plain(target, auth)}\r\n0\r\n\r\n`,
    ],
    ['behind a length of zero', (target, auth) => open(OWN, auth, 'Content-Length: 0') + plain(target, auth)],
    [
      'behind the last chunk',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding: chunked')}0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind trailers',
      (target, auth) =>
        `${open(OWN, auth, 'Transfer-Encoding: chunked')}0\r\nHost: ${target.host}\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind both lengths',
      (target, auth) =>
        `${open(OWN, auth, 'Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind both lengths, in reverse order',
      (target, auth) =>
        `${open(OWN, auth, 'Transfer-Encoding: chunked', 'Content-Length: 5')}0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind two lengths',
      (target, auth) => open(OWN, auth, 'Content-Length: 0', 'Content-Length: 40') + plain(target, auth),
    ],
    ['behind a length with a sign', (target, auth) => open(OWN, auth, 'Content-Length: +0') + plain(target, auth)],
    [
      'behind an encoding with a tab',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding:\tchunked')}0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind an unknown encoding',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding: xchunked')}0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind two encodings',
      (target, auth) =>
        `${open(OWN, auth, 'Transfer-Encoding: chunked', 'Transfer-Encoding: identity')}0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind an encoding with a space before the colon',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding : chunked')}0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind a folded encoding',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding:', ' chunked')}0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind a chunk of a size that wraps around',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding: chunked')}10000000000000000\r\n${plain(target, auth)}`,
    ],
    [
      'behind a chunk of a size below zero',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding: chunked')}-1\r\n${plain(target, auth)}`,
    ],
    [
      'behind a chunk with bare line feeds',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding: chunked')}0\n\n${plain(target, auth)}`,
    ],
    [
      'behind a chunk extension with a line end',
      (target, auth) => `${open(OWN, auth, 'Transfer-Encoding: chunked')}0;\nx\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind an encoding of HTTP/1.0',
      (target, auth) =>
        `POST ${OWN.path} HTTP/1.0\r\nHost: ${DOMAIN}\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${plain(target, auth)}`,
    ],
    [
      'behind Expect: 100-continue',
      (target, auth) => open(OWN, auth, 'Content-Length: 0', 'Expect: 100-continue') + plain(target, auth),
    ],
    [
      'behind a head with bare line feeds',
      (target, auth) => `GET ${OWN.path} HTTP/1.1\nHost: ${DOMAIN}\n\n${plain(target, auth)}`,
    ],
    ['in a tunnel to an open address', (target, auth) => upgrade(OWN, auth) + plain(target, auth)],
    ['behind a refused WebSocket', (target, auth) => upgrade(target, auth) + plain(target, auth)],
    [
      'behind a WebSocket with a body',
      (target, auth) =>
        `${upgrade(OWN, auth, ['Connection: Upgrade', ...HANDSHAKE, 'Content-Length: 4'])}body${plain(target, auth)}`,
    ],
    [
      'behind a CONNECT',
      (target, auth) => `CONNECT ${DOMAIN}:80 HTTP/1.1\r\nHost: ${DOMAIN}\r\n\r\n${plain(target, auth)}`,
    ],
    ['as unrequested HTTP/2', (target, auth) => `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${plain(target, auth)}`],
    [
      'as HTTP/2 behind an upgrade',
      (target, auth) =>
        `${goOn(OWN, [...auth, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'])}${plain(target, auth)}`,
    ],
    [
      'behind a header of the PROXY protocol',
      (target, auth) => `PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n${plain(target, auth)}`,
    ],
  ] as [string, BypassAttempt['bytes']][]
).map(([name, bytes]) => ({ name: `second: ${name}`, bytes }));

/** Authorization of the owner must not extend to the next request on the connection. */
const byOwner: BypassAttempt[] = [
  {
    name: 'second: behind a request of the owner',
    owner: 1,
    bytes: (target, auth) => goOn(target, OWNER_CREDENTIALS) + plain(target, auth),
  },
  {
    name: 'second: behind an answered request of the owner',
    owner: 1,
    bytes: (target, auth) => [goOn(target, OWNER_CREDENTIALS), plain(target, auth)],
  },
  {
    name: 'second: between two answered requests of the owner',
    owner: 2,
    bytes: (target, auth) => [goOn(target, OWNER_CREDENTIALS), goOn(target, auth), plain(target, OWNER_CREDENTIALS)],
  },
  {
    name: 'second: a WebSocket behind an answered request of the owner',
    owner: 1,
    bytes: (target, auth) => [goOn(target, OWNER_CREDENTIALS), upgrade(target, auth)],
  },
  {
    name: 'second: behind an answered request of the owner, with a body',
    owner: 1,
    bytes: (target, auth) => [
      `POST ${target.path} HTTP/1.1\r\n${['Host: ' + target.host, ...OWNER_CREDENTIALS, 'Content-Length: 4'].join('\r\n')}\r\n\r\nbody`,
      plain(target, auth),
    ],
  },
  {
    name: 'second: between two requests of the owner',
    owner: 2,
    bytes: (target, auth) => goOn(target, OWNER_CREDENTIALS) + goOn(target, auth) + plain(target, OWNER_CREDENTIALS),
  },
  {
    name: 'second: a WebSocket behind a request of the owner',
    owner: 1,
    bytes: (target, auth) => goOn(target, OWNER_CREDENTIALS) + upgrade(target, auth),
  },
];

const byUpgrade: BypassAttempt[] = (
  [
    ['regular', (target, auth) => upgrade(target, auth)],
    [
      'in another case',
      (target, auth) => upgrade(target, auth, ['Connection: UPGRADE', ...HANDSHAKE.map((line) => line.toUpperCase())]),
    ],
    ['among other options', (target, auth) => upgrade(target, auth, ['Connection: keep-alive, Upgrade', ...HANDSHAKE])],
    ['without a key', (target, auth) => upgrade(target, auth, ['Connection: Upgrade', 'Upgrade: websocket'])],
    [
      'with an old version',
      (target, auth) =>
        upgrade(target, auth, ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 8']),
    ],
    ['without Connection', (target, auth) => upgrade(target, auth, [...HANDSHAKE, 'Connection: close'])],
    [
      'to two protocols',
      (target, auth) => upgrade(target, auth, ['Connection: Upgrade, close', 'Upgrade: websocket, h2c']),
    ],
    ['to HTTP/2', (target, auth) => upgrade(target, auth, ['Connection: Upgrade, close', 'Upgrade: h2c'])],
    [
      'by POST',
      (target, auth) =>
        upgrade(target, auth, ['Connection: Upgrade, close', ...HANDSHAKE], `POST ${target.path} HTTP/1.1`),
    ],
    [
      'in HTTP/1.0',
      (target, auth) => upgrade(target, auth, ['Connection: Upgrade', ...HANDSHAKE], `GET ${target.path} HTTP/1.0`),
    ],
    [
      'in the absolute form',
      (target, auth) =>
        upgrade(
          target,
          auth,
          ['Connection: Upgrade', ...HANDSHAKE],
          `GET http://${target.host}${target.path} HTTP/1.1`,
        ),
    ],
    [
      'with a credential as protocol',
      (target, auth) => upgrade(target, [...auth, `Sec-WebSocket-Protocol: bearer, ${jwtOf('nobody')}`]),
    ],
    ['with the Origin of the gateway', (target, auth) => upgrade(target, [...auth, `Origin: http://${target.host}`])],
    [
      'at an open address, for the closed path',
      (target, auth) => upgrade(OWN, [...auth, `X-Original-URL: ${target.path}`]),
    ],
    [
      'at an open address, for the closed host',
      (target, auth) => upgrade(OWN, [...auth, `X-Forwarded-Host: ${target.host}`]),
    ],
    [
      'up from an open address',
      (target, auth) => upgrade({ ...OWN, path: `${OWN.path}%2e%2e/%2e%2e/..${target.path}` }, auth),
    ],
  ] as [string, BypassAttempt['bytes']][]
).map(([name, bytes]) => ({ name: `WebSocket: ${name}`, bytes }));

export const bypassAttempts: readonly BypassAttempt[] = [
  { name: 'a plain request', bytes: (target, auth) => plain(target, auth) },
  ...bySpelling,
  ...byHostName,
  ...byHeader,
  ...byCookie,
  ...byMethod,
  ...byFraming,
  ...byOwner,
  ...byUpgrade,
];

/**
 * Attempts to bypass access control, each as raw bytes of one connection. Most target the closed
 * address, some start at an open one (`OWN`) and rely on parser differences.
 */
import { jwtOf } from './harness.ts';
import { A, DOMAIN, HANDSHAKE, OWN, OWNER_SHOWS, plain, upgrade } from './access-matrix.ts';
import type { Door } from './access-matrix.ts';
import { hosts, spellings } from './path-spellings.ts';

export interface Trick {
  name: string;
  /** Parts to send, each after the response to the previous; `null`: not applicable. */
  bytes: (door: Door, shows: readonly string[]) => string | readonly string[] | null;
  /** Number of authorized requests of the owner in the attempt. */
  owner?: number;
}

const bySpelling = Object.entries(spellings).map(([name, spell]): Trick => ({
  name: `path: ${name}`,
  bytes: (door, shows) => {
    const id = /notebook-[0-9a-f-]{36}/.exec(door.host + door.path)?.[0] ?? A;
    // Gateway paths on a port host.
    const path = door.host === DOMAIN ? door.path : `/forward/${id}/${door.port}/`;
    return plain({ host: DOMAIN, path: spell(path, id, door.port) }, shows);
  },
}));

const isHost = ({ host }: Door): boolean => host !== DOMAIN;
const raw = (target: string, lines: readonly string[], version = '1.1'): string =>
  `GET ${target} HTTP/${version}\r\n${[...lines, 'Connection: close'].join('\r\n')}\r\n\r\n`;

const byHostName: Trick[] = [
  ...Object.entries(hosts).map(([name, spell]): Trick => ({
    name: `host: ${name}`,
    bytes: (door, shows) => (isHost(door) ? plain({ ...door, host: spell(door.host) }, shows) : null),
  })),
  ...(
    [
      [
        'twice, the closed host first',
        ({ path, host }, shows) => raw(path, [`Host: ${host}`, `Host: ${OWN.hostOfPort}`, ...shows]),
      ],
      [
        'twice, the closed host last',
        ({ path, host }, shows) => raw(path, [`Host: ${OWN.hostOfPort}`, `Host: ${host}`, ...shows]),
      ],
      ['the closed host twice', ({ path, host }, shows) => raw(path, [`Host: ${host}`, `host: ${host}`, ...shows])],
      ['folded', ({ path, host }, shows) => raw(path, [`Host: ${OWN.hostOfPort}`, ` ${host}`, ...shows])],
      [
        'folded before',
        ({ path, host }, shows) => raw(path, ['X: y', ` Host: ${host}`, `Host: ${OWN.hostOfPort}`, ...shows]),
      ],
      ['with a space before the colon', ({ path, host }, shows) => raw(path, [`Host : ${host}`, ...shows])],
      ['after a bare line feed', ({ path, host }, shows) => raw(path, [`X: y\nHost: ${host}`, ...shows])],
      ['missing, in HTTP/1.1', ({ path, host }, shows) => raw(path, [`X-Forwarded-Host: ${host}`, ...shows])],
      ['missing, in HTTP/1.0', ({ path, host }, shows) => raw(path, [`X-Forwarded-Host: ${host}`, ...shows], '1.0')],
      ['empty', ({ path, host }, shows) => raw(path, ['Host:', `X-Forwarded-Host: ${host}`, ...shows])],
      [
        'an open host, and the closed one in the absolute form',
        ({ path, host }, shows) => raw(`http://${host}${path}`, [`Host: ${OWN.hostOfPort}`, ...shows]),
      ],
      [
        'the closed host, and an open one in the absolute form',
        ({ path, host }, shows) => raw(`http://${OWN.hostOfPort}${path}`, [`Host: ${host}`, ...shows]),
      ],
      [
        'an open host, and the closed path',
        ({ path, port }, shows) =>
          raw(isOwnPath(path) ? path : `/forward/${A}/${port}/`, [`Host: ${OWN.hostOfPort}`, ...shows]),
      ],
      [
        'an open host, and dots up to the closed path',
        ({ path, port }, shows) =>
          raw(`/..${isOwnPath(path) ? path : `/forward/${A}/${port}/`}`, [`Host: ${OWN.hostOfPort}`, ...shows]),
      ],
      ['127.0.0.1, and the closed path', ({ path }, shows) => raw(path, ['Host: 127.0.0.1', ...shows])],
      ['localhost, and the closed path', ({ path }, shows) => raw(path, ['Host: localhost', ...shows])],
      ['instance.invalid, and the closed path', ({ path }, shows) => raw(path, ['Host: instance.invalid', ...shows])],
    ] as [string, Trick['bytes']][]
  ).map(([name, bytes]) => ({ name: `host: ${name}`, bytes })),
];

const isOwnPath = (path: string): boolean => path.length > 1;

/** Headers that some servers trust. */
const believed = (door: Door): Record<string, string> => ({
  'X-Original-URL': door.path,
  'X-Rewrite-URL': door.path,
  'X-Original-URI': door.path,
  'X-Forwarded-Uri': door.path,
  'X-Forwarded-Path': door.path,
  'X-Forwarded-Prefix': door.path,
  'X-Accel-Redirect': door.path,
  'X-Sendfile': door.path,
  'X-Forwarded-Host': door.host,
  'X-Original-Host': door.host,
  'X-Host': door.host,
  'X-HTTP-Host-Override': door.host,
  'X-Forwarded-Server': door.host,
  ':authority': door.host,
  'X-Forwarded-Port': String(door.port),
  'X-Forwarded-Proto': 'https',
  'X-Forwarded-For': '127.0.0.1',
  'X-Real-IP': '127.0.0.1',
  'X-Client-IP': '127.0.0.1',
  'X-Cluster-Client-IP': '127.0.0.1',
  'True-Client-IP': '127.0.0.1',
  'CF-Connecting-IP': '127.0.0.1',
  'X-Originating-IP': '127.0.0.1',
  Forwarded: `for=127.0.0.1;host="${door.host}";proto=https`,
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
  Origin: `http://${door.host}`,
  Referer: `http://${door.host}${door.path}`,
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

const NAMES = Object.keys(believed({ name: '', host: '', path: '', port: 0, forAccounts: false }));

const byHeader = NAMES.flatMap((name): Trick[] => [
  {
    name: `header: ${name} at the closed address`,
    bytes: (door, shows) => plain(door, [...shows, `${name}: ${believed(door)[name]}`]),
  },
  {
    name: `header: ${name} at an open address`,
    bytes: (door, shows) => plain(OWN, [...shows, `${name}: ${believed(door)[name]}`]),
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

const byCookie = cookies.map((cookie): Trick => ({
  name: `cookie: ${cookie}`,
  bytes: (door, shows) => plain(door, [...shows, `Cookie: ${cookie}`, 'Sec-Fetch-Site: none']),
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
const byMethod: Trick[] = [
  ...METHODS.map((method): Trick => ({
    name: `method: ${method}`,
    bytes: (door, shows) => plain(door, shows, { method }),
  })),
  { name: 'method: CONNECT to the path', bytes: (door, shows) => plain(door, shows, { method: 'CONNECT' }) },
  {
    name: 'method: CONNECT to the host',
    bytes: ({ host, port }, shows) => plain({ host, path: `${host}:${port}` }, shows, { method: 'CONNECT' }),
  },
  {
    name: 'method: CONNECT to the instance',
    bytes: ({ host, port }, shows) => plain({ host, path: `${A}:${port}` }, shows, { method: 'CONNECT' }),
  },
  {
    name: 'method: an override in the query',
    bytes: ({ host, path }, shows) => plain({ host, path: `${path}?_method=OPTIONS` }, shows),
  },
  { name: 'method: GET of HTTP/0.9', bytes: ({ path }) => `GET ${path}\r\n\r\n` },
  { name: 'method: GET of HTTP/1.0', bytes: (door, shows) => plain(door, shows, { version: '1.0' }) },
  {
    name: 'query: a notebook token',
    bytes: ({ host, path }, shows) => plain({ host, path: `${path}?token=x` }, shows),
  },
  {
    name: 'query: an unknown link token',
    bytes: ({ host, path }, shows) => plain({ host, path: `${path}?berth_share=x` }, shows),
  },
  {
    name: 'query: a link to another port',
    bytes: ({ host, path }, shows) => plain({ host, path: `${path}?berth_share=of-83` }, shows),
  },
  {
    name: 'query: an API key',
    bytes: ({ host, path }, shows) => plain({ host, path: `${path}?api_key=berth_account-mallory` }, shows),
  },
];

const open = (place: { host: string; path: string }, shows: readonly string[], ...lines: string[]): string =>
  `POST ${place.path} HTTP/1.1\r\n${['Host: ' + place.host, ...shows, ...lines].join('\r\n')}\r\n\r\n`;
const goOn = ({ host, path }: { host: string; path: string }, shows: readonly string[]): string =>
  `GET ${path} HTTP/1.1\r\n${['Host: ' + host, ...shows].join('\r\n')}\r\n\r\n`;

/** A second request behind or within an authorized one. */
const byFraming: Trick[] = (
  [
    ['behind an authorized request', (door, shows) => goOn(OWN, shows) + plain(door, shows)],
    ['behind nine authorized requests', (door, shows) => goOn(OWN, shows).repeat(9) + plain(door, shows)],
    ['before an authorized request', (door, shows) => goOn(door, shows) + plain(OWN, shows)],
    ['behind empty lines', (door, shows) => `\r\n\r\n${plain(door, shows)}`],
    [
      'as the body of an authorized request',
      (door, shows) =>
        open(OWN, [...shows, 'Connection: close'], `Content-Length: ${plain(door, shows).length}`) + plain(door, shows),
    ],
    [
      'as a chunk of an authorized request',
      (door, shows) =>
        `${open(OWN, [...shows, 'Connection: close'], 'Transfer-Encoding: chunked')}${plain(door, shows).length.toString(16)}\r\n${plain(door, shows)}\r\n0\r\n\r\n`,
    ],
    ['behind a length of zero', (door, shows) => open(OWN, shows, 'Content-Length: 0') + plain(door, shows)],
    [
      'behind the last chunk',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding: chunked')}0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind trailers',
      (door, shows) =>
        `${open(OWN, shows, 'Transfer-Encoding: chunked')}0\r\nHost: ${door.host}\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind both lengths',
      (door, shows) =>
        `${open(OWN, shows, 'Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind both lengths, in reverse order',
      (door, shows) =>
        `${open(OWN, shows, 'Transfer-Encoding: chunked', 'Content-Length: 5')}0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind two lengths',
      (door, shows) => open(OWN, shows, 'Content-Length: 0', 'Content-Length: 40') + plain(door, shows),
    ],
    ['behind a length with a sign', (door, shows) => open(OWN, shows, 'Content-Length: +0') + plain(door, shows)],
    [
      'behind an encoding with a tab',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding:\tchunked')}0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind an unknown encoding',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding: xchunked')}0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind two encodings',
      (door, shows) =>
        `${open(OWN, shows, 'Transfer-Encoding: chunked', 'Transfer-Encoding: identity')}0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind an encoding with a space before the colon',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding : chunked')}0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind a folded encoding',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding:', ' chunked')}0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind a chunk of a size that wraps around',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding: chunked')}10000000000000000\r\n${plain(door, shows)}`,
    ],
    [
      'behind a chunk of a size below zero',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding: chunked')}-1\r\n${plain(door, shows)}`,
    ],
    [
      'behind a chunk with bare line feeds',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding: chunked')}0\n\n${plain(door, shows)}`,
    ],
    [
      'behind a chunk extension with a line end',
      (door, shows) => `${open(OWN, shows, 'Transfer-Encoding: chunked')}0;\nx\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind an encoding of HTTP/1.0',
      (door, shows) =>
        `POST ${OWN.path} HTTP/1.0\r\nHost: ${DOMAIN}\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${plain(door, shows)}`,
    ],
    [
      'behind Expect: 100-continue',
      (door, shows) => open(OWN, shows, 'Content-Length: 0', 'Expect: 100-continue') + plain(door, shows),
    ],
    [
      'behind a head with bare line feeds',
      (door, shows) => `GET ${OWN.path} HTTP/1.1\nHost: ${DOMAIN}\n\n${plain(door, shows)}`,
    ],
    ['in a tunnel to an open address', (door, shows) => upgrade(OWN, shows) + plain(door, shows)],
    ['behind a refused WebSocket', (door, shows) => upgrade(door, shows) + plain(door, shows)],
    [
      'behind a WebSocket with a body',
      (door, shows) =>
        `${upgrade(OWN, shows, ['Connection: Upgrade', ...HANDSHAKE, 'Content-Length: 4'])}body${plain(door, shows)}`,
    ],
    [
      'behind a CONNECT',
      (door, shows) => `CONNECT ${DOMAIN}:80 HTTP/1.1\r\nHost: ${DOMAIN}\r\n\r\n${plain(door, shows)}`,
    ],
    ['as unrequested HTTP/2', (door, shows) => `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${plain(door, shows)}`],
    [
      'as HTTP/2 behind an upgrade',
      (door, shows) =>
        `${goOn(OWN, [...shows, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'])}${plain(door, shows)}`,
    ],
    [
      'behind a header of the PROXY protocol',
      (door, shows) => `PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n${plain(door, shows)}`,
    ],
  ] as [string, Trick['bytes']][]
).map(([name, bytes]) => ({ name: `second: ${name}`, bytes }));

/** Authorization of the owner must not extend to the next request on the connection. */
const byOwner: Trick[] = [
  {
    name: 'second: behind a request of the owner',
    owner: 1,
    bytes: (door, shows) => goOn(door, OWNER_SHOWS) + plain(door, shows),
  },
  {
    name: 'second: behind an answered request of the owner',
    owner: 1,
    bytes: (door, shows) => [goOn(door, OWNER_SHOWS), plain(door, shows)],
  },
  {
    name: 'second: between two answered requests of the owner',
    owner: 2,
    bytes: (door, shows) => [goOn(door, OWNER_SHOWS), goOn(door, shows), plain(door, OWNER_SHOWS)],
  },
  {
    name: 'second: a WebSocket behind an answered request of the owner',
    owner: 1,
    bytes: (door, shows) => [goOn(door, OWNER_SHOWS), upgrade(door, shows)],
  },
  {
    name: 'second: behind an answered request of the owner, with a body',
    owner: 1,
    bytes: (door, shows) => [
      `POST ${door.path} HTTP/1.1\r\n${['Host: ' + door.host, ...OWNER_SHOWS, 'Content-Length: 4'].join('\r\n')}\r\n\r\nbody`,
      plain(door, shows),
    ],
  },
  {
    name: 'second: between two requests of the owner',
    owner: 2,
    bytes: (door, shows) => goOn(door, OWNER_SHOWS) + goOn(door, shows) + plain(door, OWNER_SHOWS),
  },
  {
    name: 'second: a WebSocket behind a request of the owner',
    owner: 1,
    bytes: (door, shows) => goOn(door, OWNER_SHOWS) + upgrade(door, shows),
  },
];

const byUpgrade: Trick[] = (
  [
    ['regular', (door, shows) => upgrade(door, shows)],
    [
      'in another case',
      (door, shows) => upgrade(door, shows, ['Connection: UPGRADE', ...HANDSHAKE.map((line) => line.toUpperCase())]),
    ],
    ['among other options', (door, shows) => upgrade(door, shows, ['Connection: keep-alive, Upgrade', ...HANDSHAKE])],
    ['without a key', (door, shows) => upgrade(door, shows, ['Connection: Upgrade', 'Upgrade: websocket'])],
    [
      'with an old version',
      (door, shows) => upgrade(door, shows, ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 8']),
    ],
    ['without Connection', (door, shows) => upgrade(door, shows, [...HANDSHAKE, 'Connection: close'])],
    [
      'to two protocols',
      (door, shows) => upgrade(door, shows, ['Connection: Upgrade, close', 'Upgrade: websocket, h2c']),
    ],
    ['to HTTP/2', (door, shows) => upgrade(door, shows, ['Connection: Upgrade, close', 'Upgrade: h2c'])],
    [
      'by POST',
      (door, shows) => upgrade(door, shows, ['Connection: Upgrade, close', ...HANDSHAKE], `POST ${door.path} HTTP/1.1`),
    ],
    [
      'in HTTP/1.0',
      (door, shows) => upgrade(door, shows, ['Connection: Upgrade', ...HANDSHAKE], `GET ${door.path} HTTP/1.0`),
    ],
    [
      'in the absolute form',
      (door, shows) =>
        upgrade(door, shows, ['Connection: Upgrade', ...HANDSHAKE], `GET http://${door.host}${door.path} HTTP/1.1`),
    ],
    [
      'with a credential as protocol',
      (door, shows) => upgrade(door, [...shows, `Sec-WebSocket-Protocol: bearer, ${jwtOf('nobody')}`]),
    ],
    ['with the Origin of the gateway', (door, shows) => upgrade(door, [...shows, `Origin: http://${door.host}`])],
    [
      'at an open address, for the closed path',
      (door, shows) => upgrade(OWN, [...shows, `X-Original-URL: ${door.path}`]),
    ],
    [
      'at an open address, for the closed host',
      (door, shows) => upgrade(OWN, [...shows, `X-Forwarded-Host: ${door.host}`]),
    ],
    [
      'up from an open address',
      (door, shows) => upgrade({ ...OWN, path: `${OWN.path}%2e%2e/%2e%2e/..${door.path}` }, shows),
    ],
  ] as [string, Trick['bytes']][]
).map(([name, bytes]) => ({ name: `WebSocket: ${name}`, bytes }));

export const tricks: readonly Trick[] = [
  { name: 'a plain request', bytes: (door, shows) => plain(door, shows) },
  ...bySpelling,
  ...byHostName,
  ...byHeader,
  ...byCookie,
  ...byMethod,
  ...byFraming,
  ...byOwner,
  ...byUpgrade,
];

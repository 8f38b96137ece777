/**
 * Named requests as bytes, which HTTP clients would not send or would hide. Their replies are
 * pinned in `test/expected/bad-inputs.json`.
 */
import { ALICE, fileUrl } from './files-fixture.ts';

export interface RawRequest {
  name: string;
  head: string;
  /** Sent after a `100 Continue`. */
  body?: string;
}

/** Host names of the server under test, and the origin of pages that may call it. */
export const HOST = 'berth.example.org';
export const PAGE = 'https://pages.example.org';

/** A file of Alice, last changed at this time and some milliseconds. */
export const DATED = { path: 'dated', modifiedAt: '2026-01-02T03:04:05.678Z' };
const AT = 'Fri, 02 Jan 2026 03:04:05 GMT';
const BEFORE = 'Fri, 02 Jan 2026 03:04:04 GMT';
const AFTER = 'Fri, 02 Jan 2026 03:04:06 GMT';
/** A folder of Alice whose listing is larger than what is sent uncompressed. */
export const WIDE_FOLDER = { path: 'wide', files: 200 };

const LOGIN = `Authorization: Bearer ${ALICE}`;
const COOKIE = `Cookie: AccessToken=${ALICE}`;
const LIST = '/api/storage/files/list';

const head = (line: string, ...headers: string[]): string =>
  [line, 'Connection: close', ...headers, '', ''].join('\r\n');
const to = (request: string, ...headers: string[]): string => head(`${request} HTTP/1.1`, `Host: ${HOST}`, ...headers);
const post = (path: string, body: object, ...headers: string[]): string => {
  const text = JSON.stringify(body);
  return to(`POST ${path}`, `Content-Length: ${text.length}`, ...headers) + text;
};
const of = (what: string, heads: Record<string, string>): RawRequest[] =>
  Object.entries(heads).map(([name, text]) => ({ name: `${what}: ${name}`, head: text }));
const withHost = (...hosts: string[]): string => head('GET /healthz HTTP/1.1', ...hosts.map((host) => `Host: ${host}`));
const dated = (method: string, ...headers: string[]): string =>
  to(`${method} ${fileUrl(DATED.path)}`, LOGIN, ...headers);
const listing = (path: string, ...headers: string[]): string =>
  post(LIST, { id: 'volume-of-alice', path }, LOGIN, ...headers);
const waiting = (request: string, length: number, ...headers: string[]): string =>
  to(request, 'Expect: 100-continue', `Content-Length: ${length}`, ...headers);
const preflight = (path: string, origin: string): string =>
  to(`OPTIONS ${path}`, `Origin: ${origin}`, 'Access-Control-Request-Method: POST');

const ROOT_LISTING = JSON.stringify({ id: 'volume-of-alice', path: 'empty' });

export const rawRequests: RawRequest[] = [
  ...of('Host', {
    none: withHost(),
    'none in HTTP/1.0': head('GET /healthz HTTP/1.0'),
    'two of them': withHost(HOST, 'evil.test'),
    'two equal ones': withHost(HOST, HOST),
    empty: withHost(''),
    'a space and a path': withHost('a b/c'),
    'a user': withHost(`evil@${HOST}`),
    'two names': withHost(`${HOST}, evil.test`),
    'a port of letters': withHost(`${HOST}:http`),
    'brackets around a name': withHost(`[${HOST}]`),
    'no IPv6 address': withHost('[::1::]'),
    'a name of its own, in capitals, with a port': withHost(`${HOST.toUpperCase()}:8080`),
    localhost: withHost('localhost'),
    'an IPv4 address': withHost('192.0.2.7:8080'),
    'an IPv6 address': withHost('[2001:db8::7]:8080'),
    'a foreign name': withHost('evil.test:8080'),
    'a foreign name that begins with its own': withHost(`${HOST}.evil.test`),
    'a foreign name with a login': head(`POST ${LIST} HTTP/1.1`, 'Host: evil.test', LOGIN, 'Content-Length: 2'),
    'a foreign name at an unknown path': head('GET /nothing HTTP/1.1', 'Host: evil.test'),
  }),
  ...of('method', {
    'QUERY of a page': to('QUERY /healthz'),
    'QUERY of a route': to('QUERY /api/instance/list'),
    'QUERY of a file': to(`QUERY ${fileUrl('a')}`),
    'QUERY of an unknown path': to('QUERY /nothing'),
    'QUERY with a body': to('QUERY /healthz', 'Content-Type: application/json', 'Content-Length: 2'),
    'PROPFIND of a route': to('PROPFIND /api/instance/list'),
    'OPTIONS of a route': to('OPTIONS /api/instance/list'),
    'PUT of a page': to('PUT /', 'Content-Length: 5'),
    'one that no HTTP has': to('FETCH /api/instance/list'),
    'one that no HTTP has, at an unknown path': to('FETCH /nothing'),
    'CONNECT to another host': head('CONNECT evil.test:443 HTTP/1.1', 'Host: evil.test:443'),
    'CONNECT of a route': to('CONNECT /api/instance/list'),
    'TRACE of a route': to('TRACE /api/instance/list'),
    'lower case': to('get /healthz'),
    'HEAD of the balance, without a login': to('HEAD /api/balance'),
    'PUT of the balance': to('PUT /api/balance'),
    'HEAD of the probe': to('HEAD /healthz'),
  }),
  ...of('HTTP', {
    'no HTTP': 'hello\r\n\r\n',
    'another version': 'GET / HTTP/9.9\r\n\r\n',
    '40 KB of headers': to('GET /', `X-Big: ${'a'.repeat(40_000)}`),
    'a body that does not come': to(`POST ${LIST}`, LOGIN, 'Content-Length: 9') + '{',
    'an expectation that nobody knows': to('GET /healthz', 'Expect: coffee'),
    'an expectation that nobody knows in HTTP/1.0': head('GET /healthz HTTP/1.0', 'Expect: coffee'),
  }),
  ...of('path', {
    'a volume id of 101 characters': to(`DELETE /api/storage/volume/${'0'.repeat(101)}/files/a`, LOGIN),
    'a volume id of 8,000 characters': to(`GET /api/storage/volume/${'0'.repeat(8_000)}/files/a`, LOGIN),
    'a name of 256 bytes': to(`GET ${fileUrl('0'.repeat(256))}`, LOGIN),
  }),
  ...of('Expect', {
    'without a login': waiting(`POST ${LIST}`, 2),
    'an upload without a login': waiting(`PUT ${fileUrl('a')}`, 2),
    'an unknown path': waiting('POST /nothing', 2),
    'another method': waiting(`PUT ${LIST}`, 2),
    'a body over the limit': waiting(`POST ${LIST}`, 1_048_577, LOGIN),
    'an upload larger than the volume': waiting(`PUT ${fileUrl('a')}`, 2 ** 31 + 1, LOGIN),
    'an upload into a folder that does not exist': waiting(`PUT ${fileUrl('no/a')}`, 2, LOGIN),
    'an upload over a file, only if new': waiting(`PUT ${fileUrl(DATED.path)}`, 2, LOGIN, 'If-None-Match: *'),
  }),
  { name: 'Expect: a body', head: waiting(`POST ${LIST}`, ROOT_LISTING.length, LOGIN), body: ROOT_LISTING },
  { name: 'Expect: an upload', head: waiting(`PUT ${fileUrl('expected')}`, 5, LOGIN), body: 'bytes' },
  ...of('condition', {
    'not modified since then': dated('GET', `If-Modified-Since: ${AT}`),
    'HEAD, not modified since then': dated('HEAD', `If-Modified-Since: ${AT}`),
    'not modified since then, by RFC 850': dated('GET', 'If-Modified-Since: Friday, 02-Jan-26 03:04:05 GMT'),
    'not modified since then, by asctime': dated('GET', 'If-Modified-Since: Fri Jan  2 03:04:05 2026'),
    'modified since': dated('GET', `If-Modified-Since: ${BEFORE}`),
    'no date': dated('GET', 'If-Modified-Since: yesterday'),
    'another tag beside the date': dated('GET', `If-Modified-Since: ${AFTER}`, 'If-None-Match: "x"'),
    'unmodified since then': dated('GET', `If-Unmodified-Since: ${AT}`),
    'modified after': dated('GET', `If-Unmodified-Since: ${BEFORE}`),
    'modified after, a part': dated('GET', `If-Unmodified-Since: ${BEFORE}`, 'Range: bytes=0-0'),
    'its tag beside the date': dated('GET', `If-Unmodified-Since: ${BEFORE}`, 'If-Match: *'),
    'no date to be unmodified since': dated('GET', 'If-Unmodified-Since: never'),
    'a delete': dated('DELETE', `If-Unmodified-Since: ${BEFORE}`),
    'a delete with a tag': dated('DELETE', 'If-Match: "x"'),
    'an upload': dated('PUT', `If-Unmodified-Since: ${BEFORE}`, 'Content-Length: 1') + 'x',
  }),
  ...of('origin', {
    'its own, with the cookie': listing('empty', `Origin: http://${HOST}`).replace(LOGIN, COOKIE),
    'its own under https': listing('empty', `Origin: https://${HOST}`).replace(LOGIN, COOKIE),
    'its own behind a user name': listing('empty', `Origin: http://evil@${HOST}`).replace(LOGIN, COOKIE),
    'its own with a path': listing('empty', `Origin: http://${HOST}/`).replace(LOGIN, COOKIE),
    'a listed one, with the cookie': listing('empty', `Origin: ${PAGE}`).replace(LOGIN, COOKIE),
    'a listed one, without a login': post(LIST, {}, `Origin: ${PAGE}`),
    'a listed one, at a file': dated('GET', `Origin: ${PAGE}`),
    'another one, with a token': listing('empty', 'Origin: https://evil.test'),
  }),
  ...of('preflight', {
    'of a listed origin': preflight(LIST, PAGE),
    'of a listed origin, for a file': preflight(fileUrl('a'), PAGE),
    'of a listed origin, for an unknown path': preflight('/nothing', PAGE),
    'of another origin': preflight(LIST, 'https://evil.test'),
    'of a listed host under http': preflight(LIST, PAGE.replace('https', 'http')),
  }),
  ...of('encoding', {
    'gzip of a long list': listing(WIDE_FOLDER.path, 'Accept-Encoding: br, gzip'),
    'any, of a long list': listing(WIDE_FOLDER.path, 'Accept-Encoding: *'),
    'gzip with weight 0': listing(WIDE_FOLDER.path, 'Accept-Encoding: gzip;q=0, *'),
    'none of a long list': listing(WIDE_FOLDER.path),
    'gzip of a short list': listing('empty', 'Accept-Encoding: gzip'),
    'gzip after another weight 0': listing(WIDE_FOLDER.path, 'Accept-Encoding: identity;q=0, GZIP;Q=0.001'),
    'gzip with no weight': listing(WIDE_FOLDER.path, 'Accept-Encoding: gzip;q=0.000'),
    'no coding at all': listing(WIDE_FOLDER.path, 'Accept-Encoding: identity;q=0, *;q=0'),
    'gzip of a file': dated('GET', 'Accept-Encoding: gzip'),
    'gzip of the head of the API document': to('HEAD /api/openapi.json', 'Accept-Encoding: gzip'),
    'gzip of the API document': to('GET /api/openapi.json', 'Accept-Encoding: gzip'),
  }),
  ...of('API document', {
    'any known version': to('GET /api/openapi.json', 'If-None-Match: *'),
    'another version': to('GET /api/openapi.json', 'If-None-Match: "x"'),
  }),
  ...of('front page', { 'in a frame': to('GET /') }),
];

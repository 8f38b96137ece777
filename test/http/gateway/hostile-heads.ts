/**
 * Headers in both directions: hop-by-hop, gateway-owned and credential headers are not forwarded.
 */
import type { Socket } from 'node:net';
import { expect } from 'vitest';
import { ALICE, jwtOf, keyOf } from './harness.ts';
import { A, answerOf, finalOf, OK, PATH, request } from './hostile-harness.ts';
import type { Hostile, Seen } from './hostile-harness.ts';

type Row = [name: string, lines: readonly string[], stops: RegExp, passes?: RegExp];

const session = 'Cookie: a=1; berth_gateway=session-a; b=2';

const requestRows: Row[] = [
  ['Keep-Alive', ['Keep-Alive: timeout=9'], /^keep-alive:/im],
  ['Proxy-Connection', ['Proxy-Connection: keep-alive'], /^proxy-connection:/im],
  ['Proxy-Authorization', ['Proxy-Authorization: Basic eA=='], /^proxy-authorization:/im],
  ['Proxy-Authenticate', ['Proxy-Authenticate: Basic'], /^proxy-authenticate:/im],
  ['TE', ['TE: trailers, deflate'], /^te:/im],
  ['Trailer', ['Trailer: X-Sum'], /^trailer:/im],
  ['Upgrade to an unsupported protocol', ['Upgrade: TLS/1.0'], /^upgrade:/im],
  ['HTTP2-Settings', ['HTTP2-Settings: AAA'], /^http2-settings:/im],
  ['Expect', ['Expect: 100-continue'], /^expect:/im],
  ['Forwarded from the client', ['Forwarded: for=6.6.6.6'], /6\.6\.6\.6/, /^forwarded: for=127\.0\.0\.1;/im],
  ['X-Real-IP', ['X-Real-IP: 6.6.6.6'], /^x-real-ip:/im],
  ['X-Berth-Share', ['X-Berth-Share: x'], /^x-berth-share:/im],
  ['other X-Forwarded headers', ['X-Forwarded-Ssl: on', 'X-Forwarded-Groups: admin'], /^x-forwarded-(ssl|groups):/im],
  [
    'X-Forwarded headers with underscores',
    ['X_Forwarded_For: 6.6.6.6', 'X-Forwarded_Proto: https'],
    /6\.6\.6\.6|_proto/i,
  ],
  [
    'underscores in hop-by-hop headers',
    ['Keep_Alive: 1', 'Transfer_Encoding: chunked', 'Proxy_Authorization: x'],
    /_(alive|encoding|authorization):/i,
  ],
  ['a header that Connection names', ['Connection: X-Mine', 'X-Mine: 1'], /^x-mine:/im],
  ['a header that Connection names in another case', ['Connection: x-MINE', 'X-Mine: 1'], /^x-mine:/im],
  [
    'several named headers in one list, with spaces and empty entries',
    ['Connection: ,X-One ,, \tX-Two,', 'X-One: 1', 'X-Two: 2', 'X-Three: 3'],
    /^x-(one|two):/im,
    /^x-three: 3/im,
  ],
  ['several in two headers', ['Connection: X-One', 'Connection: X-Two', 'X-One: 1', 'X-Two: 2'], /^x-(one|two):/im],
  ['a named header before Connection', ['X-Mine: 1', 'Connection: X-Mine'], /^x-mine:/im],
  ['a repeated named header', ['X-Mine: 1', 'Connection: X-Mine', 'X-Mine: 2'], /^x-mine:/im],
  ['Host is kept although Connection names it', ['Connection: Host'], /^connection: host/im, /^host: h\r$/im],
  ['Cookie named in Connection: Berth cookies are removed', ['Connection: Cookie', session], /session-a/],
  [
    'Authorization named in Connection: Berth keys are removed',
    ['Connection: Authorization', `Authorization: Bearer ${keyOf(ALICE)}`],
    /berth_/,
  ],
  [
    'forwarding headers are kept although Connection names them',
    ['Connection: X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, X-Forwarded-Prefix, Forwarded'],
    /^connection: x-/im,
    /^x-forwarded-for: 127\.0\.0\.1\r[^]*^x-forwarded-proto: http\r[^]*^x-forwarded-host: h\r[^]*^forwarded: for=/im,
  ],
  ['an absent header that Connection names', ['Connection: X-Absent'], /absent/i],
  ['the session', [session], /session-a|berth_/, /^cookie: a=1;\s+b=2\r/im],
  ['the session alone', ['Cookie: berth_gateway=session-a'], /cookie/i],
  [
    'the session in two headers',
    ['Cookie: berth_gateway=session-a; a=1', 'Cookie: berth_gateway=session-a'],
    /session-a/,
    /^cookie: a=1\r/im,
  ],
  ['the session in odd spacing', ['Cookie: a=1 ;\t berth_gateway \t= session-a ;b=2'], /session-a/],
  [
    'the session by each prefix',
    ['Cookie: __Host-berth_gateway=session-a; __Secure-berth_gateway=session-a; __HOST-BERTH_GATEWAY=session-a'],
    /session-a/,
  ],
  ['the session without a value', ['Cookie: berth_gateway; a=1'], /berth/, /a=1/],
  ['the cookie of the API', [`Cookie: AccessToken=${jwtOf(ALICE)}; a=1`], /AccessToken|eyJ/, /a=1/],
  ['the cookie of a link', ['Cookie: berth_share=x; __Secure-berth_share=y; a=1'], /berth_share/, /a=1/],
  [
    'cookies whose names only contain Berth names are kept',
    ['Cookie: berth_gateways=1; xberth_gateway=2; AccessTokens=3'],
    /^$/,
    /berth_gateways=1; xberth_gateway=2; AccessTokens=3/,
  ],
  ['a Berth token', [`Authorization: Bearer ${jwtOf(ALICE)}`], /eyJ/],
  ['a Berth token in another scheme', [`Authorization: Token ${jwtOf(ALICE)}`], /eyJ/],
  [
    'a Berth key as the user of Basic',
    [`Authorization: Basic ${Buffer.from(`${keyOf(ALICE)}:`).toString('base64')}`],
    /basic/i,
  ],
  [
    'the instance’s own keys are kept',
    ['Authorization: Bearer sk-1', 'X-API-Key: k'],
    /^$/,
    /bearer sk-1[^]*x-api-key: k\r/i,
  ],
  ['a link token in Referer', [`Referer: http://h${PATH}/?berth_share=x`], /berth_share/],
];

const responseRows: Row[] = [
  ['Connection', ['Connection: keep-alive'], /^connection: keep-alive/im],
  ['Keep-Alive', ['Keep-Alive: timeout=99'], /timeout=99/i],
  ['Proxy-Connection', ['Proxy-Connection: close'], /^proxy-connection:/im],
  ['Proxy-Authenticate', ['Proxy-Authenticate: Basic realm=x'], /^proxy-auth/im],
  ['Proxy-Authentication-Info', ['Proxy-Authentication-Info: x'], /^proxy-auth/im],
  ['TE', ['TE: gzip'], /^te:/im],
  ['Upgrade', ['Upgrade: h2c'], /^upgrade:/im],
  ['HTTP2-Settings', ['HTTP2-Settings: AAA'], /^http2-settings:/im],
  ['Service-Worker-Allowed', ['Service-Worker-Allowed: /'], /^service-worker-allowed:/im],
  ['Clear-Site-Data', ['Clear-Site-Data: "*"'], /^clear-site-data:/im],
  ['Strict-Transport-Security', ['Strict-Transport-Security: max-age=1'], /^strict-transport/im],
  ['Public-Key-Pins', ['Public-Key-Pins: x'], /^public-key-pins:/im],
  ['Alt-Svc', ['Alt-Svc: h3=":1"'], /^alt-svc:/im],
  ['NEL and Report-To', ['NEL: {}', 'Report-To: {}'], /^(nel|report-to):/im],
  ['Use-As-Dictionary', ['Use-As-Dictionary: match="/*"'], /^use-as-dictionary:/im],
  [
    'registrations of sessions',
    ['Secure-Session-Registration: (ES256);path="start"', 'Sec-Session-Registration: "start"; challenge="x"; es256'],
    /^sec(ure)?-session/im,
  ],
  ['Set-Login', ['Set-Login: logged-in'], /^set-login:/im],
  ['Accept-CH', ['Accept-CH: Sec-CH-UA-Model'], /^accept-ch:/im],
  ['Origin-Agent-Cluster', ['Origin-Agent-Cluster: ?1'], /^origin-agent-cluster:/im],
  ['Speculation-Rules', ['Speculation-Rules: "/rules.json"'], /^speculation-rules:/im],
  ['X-Accel-Redirect and X-Sendfile', ['X-Accel-Redirect: /x', 'X-Sendfile: /etc/passwd'], /^x-(accel|sendfile)/im],
  ['a header that Connection names', ['Connection: X-Mine', 'X-Mine: 1', 'X-Other: 2'], /^x-mine:/im, /^x-other: 2/im],
  [
    'several in two headers',
    ['X-One: 1', 'Connection: X-ONE, close', 'Connection: x-two', 'X-Two: 2'],
    /^x-(one|two):/im,
  ],
  [
    'the sandbox is kept although Connection names its headers',
    ['Connection: Content-Security-Policy, X-Content-Type-Options, Vary'],
    /^connection: content/im,
    /^content-security-policy: sandbox[^]*^x-content-type-options: nosniff\r[^]*^vary: cookie/im,
  ],
  [
    'Content-Length is kept although Connection names it',
    ['Connection: Content-Length'],
    /^transfer-encoding/im,
    /^content-length: 2\r/im,
  ],
  [
    'a policy weaker than the sandbox',
    ['Content-Security-Policy: sandbox allow-same-origin allow-scripts'],
    /^$/,
    /^content-security-policy: sandbox allow-scripts allow-forms/im,
  ],
  [
    'a report-only policy',
    ['Content-Security-Policy-Report-Only: sandbox'],
    /^$/,
    /^content-security-policy: sandbox allow-scripts/im,
  ],
  ['the cookie of the API', ['Set-Cookie: AccessToken=evil; Path=/'], /evil/],
  ['the session', ['Set-Cookie: berth_gateway=evil'], /evil/],
  ['the session by a prefix', ['Set-Cookie: __Host-berth_gateway=evil; Secure; Path=/'], /evil/],
  ['the session in another case, with spaces', ['Set-Cookie: \t BERTH_Gateway \t=evil'], /evil/],
  ['the cookie of a link', ['Set-Cookie: berth_share=evil', 'Set-Cookie: __Secure-berth_share=evil'], /evil/],
  [
    'a cookie without a name',
    ['Set-Cookie: =berth_gateway=evil', 'Set-Cookie: berth_gateway', 'Set-Cookie: ;berth_gateway=evil'],
    /set-cookie/i,
  ],
  [
    'a Berth cookie between others',
    ['Set-Cookie: a=1', 'Set-Cookie: AccessToken=evil', 'Set-Cookie: b=2'],
    /evil/,
    /a=1[^]*b=2/,
  ],
  [
    'a Berth cookie as an attribute',
    ['Set-Cookie: a=1; berth_gateway=evil'],
    /^set-cookie: berth/im,
    new RegExp(`a=1; berth_gateway=evil; Path=${PATH}/`),
  ],
  [
    'a cookie for the domain',
    ['Set-Cookie: a=1; Domain=gpu.test; Path=/'],
    /domain/i,
    new RegExp(`a=1; Path=${PATH}/`),
  ],
  [
    'a cookie for the path of another instance',
    [`Set-Cookie: a=1; Path=/notebook/${A}/`],
    /Path=\/notebook/,
    new RegExp(`Path=${PATH}/notebook`),
  ],
  ['Set-Cookie2', ['Set-Cookie2: AccessToken=evil'], /evil/],
  ['Set-Cookie with an underscore', ['Set_Cookie: AccessToken=evil'], /^set-cookie:/im],
  ['Set-Cookie that Connection names', ['Connection: Set-Cookie', 'Set-Cookie: a=1'], /set-cookie/i],
];

/** Answers once the text was received. */
const after =
  (last: string) =>
  (socket: Socket): void => {
    let got = '';
    socket.on('data', (chunk: Buffer) => {
      got += chunk.toString('latin1');
      if (got.endsWith(last)) socket.end(OK);
    });
  };

const headOf = (requestText: string | undefined): string => requestText?.split('\r\n\r\n')[0] ?? '';

const goesIn =
  (stops: RegExp, passes: RegExp = /^/) =>
  ({ answer, upstreamRequests: got, dials }: Seen): void => {
    expect(answer.replace('HTTP/1.1 100 Continue\r\n\r\n', '')).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*ok$/);
    expect(got).toHaveLength(1);
    expect(headOf(got[0])).not.toMatch(stops);
    expect(`${headOf(got[0])}\r\n`).toMatch(passes);
    expect(headOf(got[0]).match(/^(host|connection):/gim)).toHaveLength(2);
    expect(dials).toEqual([`${A}:80`]);
  };

const comesOut =
  (stops: RegExp, passes: RegExp = /^/) =>
  ({ answer }: Seen): void => {
    const { status, head, rest } = finalOf(answer);
    expect([status, rest]).toEqual([200, 'ok']);
    expect(head).not.toMatch(stops);
    expect(`${head}\r\n`).toMatch(passes);
    expect(head.match(/^connection: .*/gim)).toEqual(['Connection: close']);
  };

export const heads: Hostile[] = [
  ...requestRows.map(([name, lines, stops, passes]): Hostile => ({
    name: `upstream: ${name}`,
    sent: request(lines),
    holds: goesIn(stops, passes),
  })),
  ...responseRows.map(([name, lines, stops, passes]): Hostile => ({
    name: `downstream: ${name}`,
    inside: answerOf(lines),
    holds: comesOut(stops, passes),
  })),
  {
    name: 'downstream: a length in another case',
    inside: 'HTTP/1.1 200 OK\r\nCONTENT-length: 2\r\n\r\nok',
    holds: ({ answer }) =>
      expect(finalOf(answer).head.match(/^content-length: .*(?=\r|$)/gim)).toEqual(['Content-Length: 2']),
  },
  {
    name: 'upstream: a length that Connection names stays with its body',
    inside: after('body'),
    sent: request(['Connection: Content-Length', 'Content-Length: 4'], { method: 'POST', body: 'body' }),
    holds: ({ upstreamRequests: got }) => expect(got[0]).toMatch(/^content-length: 4\r\n[^]*\r\n\r\nbody$/im),
  },
  {
    name: 'upstream: an encoding that Connection names stays with its body',
    inside: after('\r\n0\r\n\r\n'),
    sent: request(['Connection: Transfer-Encoding', 'Transfer-Encoding: chunked'], {
      method: 'POST',
      body: '4\r\nbody\r\n0\r\n\r\n',
    }),
    holds: ({ upstreamRequests: got }) =>
      expect(got[0]).toMatch(/^transfer-encoding: chunked\r[^]*\r\n4\r\nbody\r\n0\r\n\r\n$/im),
  },
  {
    name: 'upstream: drops trailers of a request',
    inside: after('\r\n0\r\n\r\n'),
    sent: request(['Transfer-Encoding: chunked'], {
      method: 'POST',
      body: '4\r\nbody\r\n0\r\nAuthorization: Bearer x\r\nX-Trailer: 1\r\n\r\n',
    }),
    holds: ({ upstreamRequests: got }) => expect(got[0]).not.toMatch(/bearer x|x-trailer/i),
  },
  {
    name: 'upstream: a notebook receives no credential but its own token',
    sent: request([session, 'Authorization: Bearer sk-1', 'X-API-Key: k'], { path: `/notebook/${A}/` }),
    holds: ({ upstreamRequests: got, answer }) => {
      expect(answer).toMatch(/^HTTP\/1\.1 200 /);
      expect(got[0]?.match(/^(authorization|x-api-key|cookie): .*(?=\r)/gim)).toEqual([
        'cookie: a=1; b=2',
        `Authorization: token token-of-${A}`,
      ]);
    },
  },
];

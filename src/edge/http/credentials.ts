/**
 * Reads credentials in order: `Authorization`, even malformed; `X-API-Key`; the session cookie.
 * HTTP Basic is for a proxy in front, and browsers send it with each request: it is none of Berth.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { ACCESS_COOKIE } from '../../contract/routes.ts';
import type { Credential } from '../../control/index.ts';
import { isApiKey } from '../../domain/access/api-key.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';

const NOT_LOGGED_IN = 'you are not logged in or the login expired: log in again';
const NOT_BEARER = `${NOT_LOGGED_IN} (the Authorization header is not "Bearer <token>")`;

interface PresentedCredential {
  credential: Credential;
  byCookie: boolean;
}

/** Throws `not_logged_in` without a usable credential. */
export function presentedCredential(headers: IncomingHttpHeaders): PresentedCredential {
  const { authorization } = headers;
  const isOfProxy = /^Basic /i.test(authorization ?? '');
  if (authorization !== undefined && !isOfProxy) {
    const token = /^Bearer +([^ ]+) *$/i.exec(authorization)?.[1];
    if (token === undefined) throw new Refusal('not_logged_in', NOT_BEARER);
    const credential: Credential = isApiKey(token) ? { kind: 'apiKey', key: token } : { kind: 'token', token };
    return { credential, byCookie: false };
  }
  const key = headers['x-api-key'];
  if (key !== undefined) {
    const given = String(key).trim();
    if (/^ey[\w-]*\.[\w-]+\.[\w-]+$/.test(given))
      throw new Refusal(
        'not_logged_in',
        `${NOT_LOGGED_IN} (X-API-Key holds an access token: send it as "Authorization: Bearer <token>")`,
      );
    return { credential: { kind: 'apiKey', key: given }, byCookie: false };
  }
  const token = headers.cookie === undefined ? undefined : cookieOf(headers.cookie, ACCESS_COOKIE);
  if (token === undefined || token === '') throw new Refusal('not_logged_in', isOfProxy ? NOT_BEARER : NOT_LOGGED_IN);
  return { credential: { kind: 'token', token }, byCookie: true };
}

/**
 * Two different values of one cookie count as no login: a page on another port may plant the
 * second.
 */
export function cookieOf(header: string, name: string): string | undefined {
  let match: string | undefined;
  let position = 0;
  while (position < header.length) {
    const semicolon = header.indexOf(';', position);
    const end = semicolon < 0 ? header.length : semicolon;
    while (header.charCodeAt(position) === 0x20) position += 1;
    if (header.startsWith(name, position) && header.charCodeAt(position + name.length) === 0x3d) {
      const value = header.slice(position + name.length + 1, end).trim();
      if (match !== undefined && match !== value) {
        throw new Refusal('not_logged_in', `${NOT_LOGGED_IN} (the request has two different ${name} cookies)`);
      }
      match = value;
    }
    position = end + 1;
  }
  return match;
}

export function accessCookie(token: string, maxAgeS: number, secure: boolean): string {
  return `${ACCESS_COOKIE}=${token}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
}

/** Values of Sec-Fetch-Site, if Origin is absent. Another port of this host is same-site. */
const FOREIGN: ReadonlySet<unknown> = new Set(['cross-site', 'same-site']);

/** Compares whole origins: a page of the same host under another scheme is foreign. */
export function refuseCrossSite(
  { headers, protocol }: Pick<FastifyRequest, 'headers' | 'protocol'>,
  ownOrigins: ReadonlySet<string>,
): void {
  const { origin, host } = headers;
  if (origin === undefined ? !FOREIGN.has(headers['sec-fetch-site']) : ownOrigins.has(origin)) return;
  if (host !== undefined && origin === `${protocol}://${host.toLowerCase()}`) return;
  throw new Refusal(
    'forbidden',
    'a page of another origin sent this request, and it may not use the login cookie: ' +
      'send the token in an Authorization header instead of the cookie. ' +
      'If a proxy serves this API under the URL of the page, the operator sets BERTH_API_URL',
  );
}

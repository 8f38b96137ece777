/**
 * Refuses what a page of another origin makes a logged-in browser send. SameSite=Lax stops other sites, but not another port of this
 * host, where the gateway shows what runs inside instances; the browser's `Origin` header tells them apart.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { Refusal } from '../../domain/refusal.ts';

/** Of requests without an Origin: other ports of this host are of the same site. */
const FOREIGN: ReadonlySet<unknown> = new Set(['cross-site', 'same-site']);

/** `ownOrigins`: origins that reach this API under another name than the Host header says, e.g. behind a proxy. */
export function refuseCrossSite(headers: IncomingHttpHeaders, ownOrigins: ReadonlySet<string>): void {
  const { origin, host } = headers;
  if (origin === undefined ? !FOREIGN.has(headers['sec-fetch-site']) : ownOrigins.has(origin)) return;
  if (host !== undefined && origin !== undefined && URL.canParse(origin) && new URL(origin).host === host.toLowerCase())
    return;
  throw new Refusal(
    'forbidden',
    'this request was made by a page of another origin, which may not use the login of a browser: ' +
      'send the token in an Authorization header instead of the cookie',
  );
}

/** Refuses other origins the browser's login. SameSite=Lax would allow other ports of this host. */
import type { IncomingHttpHeaders } from 'node:http';
import { Refusal } from '../../domain/refusal.ts';

/**
 * Values of Sec-Fetch-Site, for requests without Origin. Another port of this host is same-site.
 */
const FOREIGN: ReadonlySet<unknown> = new Set(['cross-site', 'same-site']);

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

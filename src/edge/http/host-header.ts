/** The Host header (RFC 9112, 3.2). Foreign names are refused: DNS rebinding ends here. */
import type { IncomingMessage } from 'node:http';
import { isIP, isIPv6 } from 'node:net';
import type { Unrouted } from './refusal-reply.ts';

const HOST = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::\d{0,5})?$/i;
const ALWAYS = 'localhost';
const SHOWN_CHARACTERS = 100;

type Head = Pick<IncomingMessage, 'rawHeaders' | 'httpVersion'> & { headers: { host?: string | undefined } };

/** A final dot ends a full name: it is the same host. */
export const plainName = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/** `names` are lower-case host names besides `localhost` and IP addresses. */
export function refusalOfHost(request: Head, names: ReadonlySet<string>): Unrouted | null {
  const { host } = request.headers;
  if (host === undefined) return request.httpVersion === '1.1' ? malformed('is missing') : null;
  if (countHosts(request) > 1) return malformed('is there twice');
  const [, v6, name] = HOST.exec(host) ?? [];
  if (v6 !== undefined) return isIPv6(v6) ? null : malformed('is not a host');
  if (name === undefined) return malformed('is not a host');
  const plain = plainName(name);
  if (plain === ALWAYS || names.has(plain) || isIP(plain) !== 0) return null;
  const message =
    `"${name.slice(0, SHOWN_CHARACTERS)}" is not a name of this server: use an IP address, localhost, or a host that ` +
    'the operator has set in BERTH_API_URL, BERTH_PUBLIC_ADDRESS or BERTH_API_HOSTS';
  return { code: 'misdirected', message };
}

/** Node drops a second Host from `headers`. */
function countHosts({ rawHeaders }: Head): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  return count;
}

const malformed = (why: string): Unrouted => ({
  code: 'bad_request',
  message: `the header "Host" ${why}: send it once, with the host and port of the URL`,
});

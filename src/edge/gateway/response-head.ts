/**
 * The head of an instance's response: read strictly (RFC 9112), because where a body ends hangs on it, and what two readers could end
 * in two places is no response. Whoever writes such heads gets a 502 instead of the benefit of the doubt.
 */
export interface ResponseHead {
  status: number;
  reason: string;
  /** Name, value, name, value …, as they came. */
  raw: string[];
  framing: Framing;
  /** Whether another request may follow on the connection, once the body has ended by itself. */
  keepAlive: boolean;
  /** `Keep-Alive: timeout`, in seconds; null where it is not said. */
  keepAliveS: number | null;
}

/** How the body ends: after so many bytes, by its chunks, or with the connection. */
export type Framing = number | 'chunked' | 'close';

/** What is no HTTP/1 response. */
export class ResponseFault extends Error {}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Control characters other than tab; and so line ends that are none. */
const BROKEN = /[^\t\x20-\x7e\x80-\xff]/;
const TIMEOUT = /(?:^|[\s,])timeout=(\d{1,6})/i;

/** `text`: up to the empty line, without it. `method`: of the request. */
export function readResponseHead(text: string, method: string): ResponseHead {
  const firstEnd = text.indexOf('\r\n');
  const [, minor = '', digits = '', reason = ''] =
    STATUS_LINE.exec(firstEnd < 0 ? text : text.slice(0, firstEnd)) ?? [];
  if (digits === '') throw new ResponseFault('no status line of HTTP/1');
  const status = Number(digits);
  const raw: string[] = firstEnd < 0 ? [] : readFields(text, firstEnd + 2);
  let length: string | null = null;
  let encoding: string | null = null;
  let keepAlive = minor === '1';
  let keepAliveS: number | null = null;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const value = raw[at + 1] ?? '';
    // Most names are ruled out by their length alone.
    switch (name.length) {
      case 10:
        if (isName(name, 'connection')) keepAlive = staysOpen(value, keepAlive);
        else if (isName(name, 'keep-alive')) keepAliveS = Number(TIMEOUT.exec(value)?.[1] ?? Number.NaN);
        break;
      case 14:
        if (!isName(name, 'content-length')) break;
        if (length !== null) throw new ResponseFault('two lengths');
        length = value;
        break;
      case 17:
        if (!isName(name, 'transfer-encoding')) break;
        if (encoding !== null) throw new ResponseFault('two encodings');
        encoding = value;
        break;
      default:
    }
  }
  const framing = framingOf(method, status, length, encoding, minor);
  return {
    status,
    reason,
    raw,
    framing,
    keepAlive: keepAlive && framing !== 'close',
    keepAliveS: keepAliveS === null || Number.isNaN(keepAliveS) ? null : keepAliveS,
  };
}

/** Lines of `name: value` from a place on, to the end; of a head or of a trailer. */
export function readFields(text: string, from: number): string[] {
  const raw: string[] = [];
  for (let at = from; at < text.length;) {
    let end = text.indexOf('\r\n', at);
    if (end < 0) end = text.length;
    const colon = text.indexOf(':', at);
    if (colon < 0 || colon > end) throw new ResponseFault('a line that is no header');
    const name = text.slice(at, colon);
    // A line that continues the last one begins with a space, and so is refused, too.
    if (!TOKEN.test(name)) throw new ResponseFault('a header whose name is none');
    const value = text.slice(colon + 1, end).trim();
    if (BROKEN.test(value)) throw new ResponseFault('control characters, or a line that does not end in CRLF');
    raw.push(name, value);
    at = end + 2;
  }
  return raw;
}

export const hasNoBody = (method: string, status: number): boolean =>
  method === 'HEAD' || status < 200 || status === 204 || status === 304;

function framingOf(
  method: string,
  status: number,
  length: string | null,
  encoding: string | null,
  minor: string,
): Framing {
  if (encoding !== null) {
    if (length !== null) throw new ResponseFault('both a length and an encoding');
    if (minor !== '1' || encoding.toLowerCase() !== 'chunked')
      throw new ResponseFault('an encoding that is not chunked');
  }
  if (length !== null && !/^\d{1,15}$/.test(length)) throw new ResponseFault('a length that is no number');
  if (hasNoBody(method, status)) return 0;
  if (encoding !== null) return 'chunked';
  return length === null ? 'close' : Number(length);
}

const isName = (name: string, lower: string): boolean => name === lower || name.toLowerCase() === lower;

function staysOpen(connection: string, before: boolean): boolean {
  if (connection === 'keep-alive') return true;
  const options = connection
    .toLowerCase()
    .split(',')
    .map((option) => option.trim());
  if (options.includes('close')) return false;
  return before || options.includes('keep-alive');
}

/** Parses a response head strictly (RFC 9112): a body with two possible ends gives 502. */
export interface ResponseHead {
  status: number;
  reason: string;
  raw: string[];
  framing: Framing;
  /** Whether the connection is reusable after the body. */
  keepAlive: boolean;
  /** `Keep-Alive: timeout` in seconds; null if absent. */
  keepAliveS: number | null;
}

/** Length in bytes, chunked, or until the connection ends. */
export type Framing = number | 'chunked' | 'close';

export class ResponseFault extends Error {}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const BROKEN = /[^\t\x20-\x7e\x80-\xff]/;
const TIMEOUT = /(?:^|[\s,])timeout=(\d{1,6})/i;

/** `text`: head without its empty line. `method`: of the request. */
export function readResponseHead(text: string, method: string): ResponseHead {
  const firstEnd = text.indexOf('\r\n');
  const [, minor = '', digits = '', reason = ''] =
    STATUS_LINE.exec(firstEnd < 0 ? text : text.slice(0, firstEnd)) ?? [];
  if (digits === '') throw new ResponseFault('no HTTP/1 status line');
  const status = Number(digits);
  const raw: string[] = firstEnd < 0 ? [] : readFields(text, firstEnd + 2);
  let length: string | null = null;
  let encoding: string | null = null;
  let keepAlive = minor === '1';
  let keepAliveS: number | null = null;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const value = raw[at + 1] ?? '';
    // The length rules out most names.
    switch (name.length) {
      case 10:
        if (isName(name, 'connection')) keepAlive = staysOpen(value, keepAlive);
        else if (isName(name, 'keep-alive')) keepAliveS = Number(TIMEOUT.exec(value)?.[1] ?? Number.NaN);
        break;
      case 14:
        if (!isName(name, 'content-length')) break;
        if (length !== null) throw new ResponseFault('two values of Content-Length');
        length = value;
        break;
      case 17:
        if (!isName(name, 'transfer-encoding')) break;
        if (encoding !== null) throw new ResponseFault('two values of Transfer-Encoding');
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

/** Parses `name: value` lines of a head or trailer from an offset. */
export function readFields(text: string, from: number): string[] {
  const raw: string[] = [];
  for (let position = from; position < text.length;) {
    let end = text.indexOf('\r\n', position);
    if (end < 0) end = text.length;
    const colon = text.indexOf(':', position);
    if (colon < 0 || colon > end) throw new ResponseFault('a line that is not a header');
    const name = text.slice(position, colon);
    // Also refuses continuation lines, which begin with a space.
    if (!TOKEN.test(name)) throw new ResponseFault('a header with an invalid name');
    const value = text.slice(colon + 1, end).trim();
    if (BROKEN.test(value)) throw new ResponseFault('control characters, or a line that does not end in CRLF');
    raw.push(name, value);
    position = end + 2;
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
    if (length !== null) throw new ResponseFault('both Content-Length and Transfer-Encoding');
    if (minor !== '1' || encoding.toLowerCase() !== 'chunked')
      throw new ResponseFault('a Transfer-Encoding other than chunked');
  }
  if (length !== null && !/^\d{1,15}$/.test(length)) throw new ResponseFault('a Content-Length that is not a number');
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

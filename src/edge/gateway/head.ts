import { headBytes } from '../full-cookies.ts';

/** Headers of one connection (RFC 9110 §7.6.1), and old variants. */
export const HOP_BY_HOP: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
];

const NONE: readonly string[] = [];

/** A client's request head. Null: the header is absent. */
export class Head {
  readonly raw: readonly string[];
  /** Lower-case names: `names[i]` belongs to `raw[2 * i + 1]`. */
  readonly names: string[] = [];
  host = '';
  cookies = NONE;
  authorization: string | null = null;
  apiKey: string | null = null;
  shareToken: string | null = null;
  origin: string | null = null;
  referer: string | null = null;
  fetchSite: string | null = null;
  fetchMode: string | null = null;
  fetchDest: string | null = null;
  /** The browser navigates because its user acted. */
  isByPerson = false;
  isPrefetch = false;
  asksToWake = false;
  /** The browser fetches a service worker script. */
  serviceWorkerScript = false;
  accept = '';
  acceptEncoding: string | null = null;
  ifNoneMatch: string | null = null;
  /** Lower-case options of `Connection`: names of hop-by-hop headers. */
  connection = NONE;
  forwardedFor: string | null = null;
  forwardedProto: string | null = null;
  forwardedHost: string | null = null;
  forwarded: string | null = null;
  contentLength: string | null = null;
  bytes = 0;
  chunked = false;

  constructor(raw: readonly string[]) {
    this.raw = raw;
  }
}

/** The first value of a header that no decision of access depends on; empty if absent. */
export function headerOf({ names, raw }: Head, name: string): string {
  const at = names.indexOf(name);
  return at === -1 ? '' : (raw[2 * at + 1] ?? '');
}

/** Returns the head, or the reason to refuse a request that two servers could read differently. */
export function readHead(raw: readonly string[], method: string, httpVersion: string): Head | string {
  const head = new Head(raw);
  head.bytes = headBytes(raw);
  let host: string | null = null;
  let encoding: string | null = null;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase();
    const value = raw[at + 1] ?? '';
    head.names.push(name);
    switch (name) {
      case 'cookie':
        head.cookies = [...head.cookies, value];
        break;
      case 'connection':
        if (value !== 'keep-alive' && value !== 'close') head.connection = [...head.connection, ...optionsOf(value)];
        break;
      case 'accept':
        head.accept = value;
        break;
      case 'accept-encoding':
        head.acceptEncoding = value;
        break;
      case 'if-none-match':
        head.ifNoneMatch = value;
        break;
      case 'x-forwarded-for':
        // Repeated lines form one list (RFC 9110 §5.3); a proxy may append its own.
        head.forwardedFor = head.forwardedFor === null ? value : `${head.forwardedFor}, ${value}`;
        break;
      case 'x-forwarded-proto':
        head.forwardedProto = value;
        break;
      case 'x-forwarded-host':
        head.forwardedHost = value;
        break;
      case 'forwarded':
        head.forwarded = head.forwarded === null ? value : `${head.forwarded}, ${value}`;
        break;
      case 'referer':
        head.referer ??= value;
        break;
      case 'service-worker':
        head.serviceWorkerScript = true;
        break;
      // Headers that decisions depend on must be unique.
      case 'host':
        if (host !== null) return twice(name);
        host = value;
        break;
      case 'authorization':
        if (head.authorization !== null) return twice(name);
        head.authorization = value;
        break;
      case 'x-api-key':
        if (head.apiKey !== null) return twice(name);
        head.apiKey = value.trim();
        break;
      case 'x-berth-share':
        if (head.shareToken !== null) return twice(name);
        head.shareToken = value.trim();
        break;
      case 'origin':
        if (head.origin !== null) return twice(name);
        head.origin = value;
        break;
      case 'sec-fetch-site':
        if (head.fetchSite !== null) return twice(name);
        head.fetchSite = value;
        break;
      case 'sec-fetch-mode':
        if (head.fetchMode !== null) return twice(name);
        head.fetchMode = value;
        break;
      case 'sec-fetch-dest':
        if (head.fetchDest !== null) return twice(name);
        head.fetchDest = value;
        break;
      case 'sec-fetch-user':
        head.isByPerson = value === '?1';
        break;
      case 'sec-purpose':
      case 'purpose':
      case 'x-moz':
        head.isPrefetch ||= value.includes('prefetch');
        break;
      case 'x-berth-wake':
        head.asksToWake = value.trim() === '1';
        break;
      case 'content-length':
        if (head.contentLength !== null) return twice(name);
        head.contentLength = value;
        break;
      case 'transfer-encoding':
        if (encoding !== null) return twice(name);
        encoding = value;
        break;
      default:
    }
  }
  if (host === null && httpVersion === '1.1') return 'the Host header is missing: send it once';
  head.host = host ?? '';
  head.chunked = encoding !== null;
  return refusalReason(method, httpVersion, head.host, head.contentLength, encoding) ?? head;
}

const twice = (name: string): string => `the header ${name} is repeated: send it once`;

export const hasBody = (head: Head): boolean =>
  head.chunked || (head.contentLength !== null && head.contentLength !== '0');

/** Node's parser refuses the worst of these; this check does not rely on it. */
function refusalReason(
  method: string,
  httpVersion: string,
  host: string,
  contentLength: string | null,
  transferEncoding: string | null,
): string | null {
  if (method === 'CONNECT' || method === 'TRACE') return `the method ${method} is not forwarded: use another method`;
  if (!isHost(host)) return 'the Host header is not a host name with an optional port';
  if (transferEncoding !== null) {
    if (contentLength !== null)
      return 'the request has both Content-Length and Transfer-Encoding: send only one of them';
    if (httpVersion !== '1.1') return 'Transfer-Encoding needs HTTP/1.1: send Content-Length instead';
    if (transferEncoding.toLowerCase() !== 'chunked')
      return 'the header Transfer-Encoding must be "chunked": use no other encoding';
  }
  if (contentLength !== null && !isDigits(contentLength)) return 'Content-Length is not a number';
  return null;
}

function isDigits(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x30 || code > 0x39) return false;
  }
  return text.length > 0 && text.length < 16;
}

/** Allows letters, digits, `.-_:[]`: the host is echoed and compared with `Origin`. */
function isHost(host: string): boolean {
  for (let at = 0; at < host.length; at += 1) {
    const code = host.charCodeAt(at);
    const letter = (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a);
    if (letter || (code >= 0x2d && code <= 0x3a && code !== 0x2f) || code === 0x5b || code === 0x5d || code === 0x5f)
      continue;
    return false;
  }
  return host.length < 256;
}

export function optionsOf(connection: string): string[] {
  const options: string[] = [];
  for (const part of connection.toLowerCase().split(',')) {
    const option = part.trim();
    if (option !== '') options.push(option);
  }
  return options;
}

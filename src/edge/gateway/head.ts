/**
 * The head of a client's request, read once: the names in lower case, and the few values that decisions hang on. Requests that two
 * servers could read in two ways are refused here, before anything else looks at them.
 */
export interface Head {
  /** Name, value, name, value …, as they came. */
  raw: readonly string[];
  /** Names in lower case: `names[i]` belongs to `raw[2 * i + 1]`. */
  names: readonly string[];
  host: string;
  cookies: readonly string[];
  authorization: string | null;
  apiKey: string | null;
  origin: string | null;
  referer: string | null;
  fetchSite: string | null;
  fetchMode: string | null;
  fetchDest: string | null;
  /** The browser fetches the script of a service worker. */
  serviceWorkerScript: boolean;
  accept: string;
  /** Options of `Connection`, in lower case: each names a header that ends here. */
  connection: readonly string[];
  forwardedFor: string | null;
  forwardedProto: string | null;
  forwardedHost: string | null;
  contentLength: string | null;
  chunked: boolean;
}

const NONE: readonly string[] = [];

/** The head, or why it is refused. */
export function readHead(raw: readonly string[], method: string, httpVersion: string): Head | string {
  const names: string[] = [];
  const seen: { [name: string]: string | undefined } = Object.create(null);
  let cookies: string[] | null = null;
  let connection: string[] | null = null;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase();
    const value = raw[at + 1] ?? '';
    names.push(name);
    switch (name) {
      case 'cookie':
        (cookies ??= []).push(value);
        break;
      case 'connection':
        (connection ??= []).push(...optionsOf(value));
        break;
      case 'accept':
      case 'x-forwarded-for':
      case 'x-forwarded-proto':
      case 'x-forwarded-host':
      case 'referer':
        seen[name] ??= value;
        break;
      case 'host':
      case 'authorization':
      case 'x-api-key':
      case 'origin':
      case 'sec-fetch-site':
      case 'sec-fetch-mode':
      case 'sec-fetch-dest':
      case 'service-worker':
      case 'content-length':
      case 'transfer-encoding':
        if (seen[name] !== undefined) return `the header ${name} came twice: send it once`;
        seen[name] = value;
        break;
      default:
    }
  }
  const host = seen['host'] ?? '';
  const why = whyRefused(method, httpVersion, host, seen['content-length'], seen['transfer-encoding']);
  if (why !== null) return why;
  return {
    raw,
    names,
    host,
    cookies: cookies ?? NONE,
    authorization: seen['authorization'] ?? null,
    apiKey: seen['x-api-key']?.trim() ?? null,
    origin: seen['origin'] ?? null,
    referer: seen['referer'] ?? null,
    fetchSite: seen['sec-fetch-site'] ?? null,
    fetchMode: seen['sec-fetch-mode'] ?? null,
    fetchDest: seen['sec-fetch-dest'] ?? null,
    serviceWorkerScript: seen['service-worker'] !== undefined,
    accept: seen['accept'] ?? '',
    connection: connection ?? NONE,
    forwardedFor: seen['x-forwarded-for'] ?? null,
    forwardedProto: seen['x-forwarded-proto'] ?? null,
    forwardedHost: seen['x-forwarded-host'] ?? null,
    contentLength: seen['content-length'] ?? null,
    chunked: seen['transfer-encoding'] !== undefined,
  };
}

export const hasBody = (head: Head): boolean =>
  head.chunked || (head.contentLength !== null && head.contentLength !== '0');

/** The parser of Node refuses the worst of these itself; this page must not depend on its leniency. */
function whyRefused(
  method: string,
  httpVersion: string,
  host: string,
  contentLength: string | undefined,
  transferEncoding: string | undefined,
): string | null {
  if (method === 'CONNECT' || method === 'TRACE') return `${method} is not passed on: use another method`;
  if (!isHost(host)) return 'the Host header is not a host name with an optional port';
  if (transferEncoding !== undefined) {
    if (contentLength !== undefined) return 'Content-Length and Transfer-Encoding came together: send one of them';
    if (httpVersion !== '1.1') return 'Transfer-Encoding needs HTTP/1.1: send a Content-Length';
    if (transferEncoding.toLowerCase() !== 'chunked') return 'of transfer encodings only "chunked" is passed on';
  }
  if (contentLength !== undefined && !isDigits(contentLength)) return 'Content-Length is not a number';
  return null;
}

function isDigits(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x30 || code > 0x39) return false;
  }
  return text.length > 0 && text.length < 16;
}

/** Letters, digits, `.-_:[]`: it is echoed into `Forwarded`, and compared with `Origin`. Empty for an HTTP/1.0 client. */
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

/** Converts an HTTP/2 head to HTTP/1.1 terms. nghttp2 has already reset malformed requests. */
import { METHODS } from 'node:http';
import { CLEAR_PATH } from '../full-cookies.ts';

export interface Http2Head {
  method: string;
  path: string;
  raw: string[];
  expectsContinue: boolean;
}

export interface Refused {
  status: number;
  why: string;
}

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS);

const FIELD_OVERHEAD = 32;

export function http2Head(fields: readonly string[], maxBytes: number): Http2Head | Refused {
  let method = '';
  let path = '';
  let authority: string | null = null;
  let host: string | null = null;
  let expectsContinue = false;
  let bytes = 0;
  const crumbs: string[] = [];
  const rest: string[] = [];
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? '';
    const value = fields[at + 1] ?? '';
    bytes += name.length + value.length + FIELD_OVERHEAD;
    switch (name) {
      case ':method':
        method = value;
        break;
      case ':path':
        path = value;
        break;
      case ':authority':
        authority = value;
        break;
      case ':scheme':
        break;
      case 'host':
        if (host !== null) return refused('the header host is repeated: send it once');
        host = value;
        break;
      case 'cookie':
        crumbs.push(value);
        break;
      case 'expect':
        if (value.toLowerCase() !== '100-continue')
          return { status: 417, why: 'the header Expect must be "100-continue": send it so, or leave the header out' };
        expectsContinue = true;
        break;
      default:
        rest.push(name, value);
    }
  }
  const clearsCookies = method === 'POST' && path === CLEAR_PATH;
  if (bytes > maxBytes && !clearsCookies) return { status: 431, why: `the headers are larger than ${maxBytes} bytes` };
  if (!KNOWN_METHODS.has(method)) return refused('the method is unknown: use another one');
  if (authority !== null && host !== null && authority.toLowerCase() !== host.toLowerCase())
    return refused(':authority and the header host have different values: send only :authority');
  const named = authority ?? host ?? '';
  if (named === '') return refused('the request names no host: send it in :authority');
  const raw = ['host', named, ...rest];
  if (crumbs.length > 0) raw.push('cookie', crumbs.join('; '));
  return { method, path, raw, expectsContinue };
}

const refused = (why: string): Refused => ({ status: 400, why });

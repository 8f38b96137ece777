import type { RequestBody } from './request-body.ts';

/** Characters that could start a new line. Client parsers refuse them; this is the last check. */
const UNSAFE = /[^\t\x20-\x7e\x80-\xff]/;
const UNSAFE_IN_PATH = /[^\x21-\x7e\x80-\xff]/;

/** Methods that announce an empty body. */
const MEANS_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

/** Throws on invalid characters. `headers`: names and values, with the known body length. */
export function requestHead(
  method: string,
  path: string,
  headers: readonly string[],
  body: Pick<RequestBody, 'chunked'> | null,
  connection: 'keep-alive' | 'Upgrade' = 'keep-alive',
): string {
  if (UNSAFE_IN_PATH.test(path)) throw new Error('a path with spaces or control characters');
  let text = `${method} ${path} HTTP/1.1\r\n`;
  let sized = false;
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? '';
    const value = headers[at + 1] ?? '';
    if (UNSAFE.test(value)) throw new Error(`a value of the header ${name} with control characters`);
    if (name.length === 14 && name.toLowerCase() === 'content-length') sized = true;
    text += `${name}: ${value}\r\n`;
  }
  if (body?.chunked === true) text += 'Transfer-Encoding: chunked\r\n';
  else if (!sized && MEANS_BODY.has(method)) text += 'Content-Length: 0\r\n';
  return `${text}Connection: ${connection}\r\n\r\n`;
}

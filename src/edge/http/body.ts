/** Parses a request body. Any input gives a value or a refusal, never a fault. */
import { isUtf8 } from 'node:buffer';
import { MAX_BODY_BYTES } from '../../contract/common.ts';
import { Refusal } from '../../domain/refusal.ts';

const BYTE_ORDER_MARK = 0xfeff;
const FORM = /^\s*(multipart\/|application\/x-www-form-urlencoded)/i;

const SEND_JSON = 'send a JSON object with the header "content-type: application/json"';

export const bodyTooLarge = (): Refusal =>
  new Refusal('body_too_large', `the body is too large: at most ${MAX_BODY_BYTES} bytes (1 MiB) are read`);

export function checkBodyHeaders(headers: { 'content-type'?: string; 'content-encoding'?: string }): void {
  const type = headers['content-type'];
  if (type !== undefined && FORM.test(type)) throw new Refusal('body_not_json', `the body is a form: ${SEND_JSON}`);
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding !== '' && encoding.toLowerCase() !== 'identity') {
    throw new Refusal('body_not_json', 'the body has a content-encoding: send it as it is, uncompressed');
  }
}

export function parseBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw new Refusal('body_not_json', `the body is not UTF-8 text: ${SEND_JSON}`);
  const text = bytes.toString('utf8');
  const json = text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text;
  if (json.trim() === '') return undefined;
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new Refusal('body_not_json', `the body is not JSON: ${whereItBreaks(error)}`);
  }
}

/** V8's message quotes the body, which may hold a password: report only the position. */
function whereItBreaks(error: unknown): string {
  const position = error instanceof SyntaxError ? /at position (\d+)/.exec(error.message)?.[1] : undefined;
  return position === undefined
    ? 'it is cut short, or no JSON at all'
    : `it can't be read from character ${position} on`;
}

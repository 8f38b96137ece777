/** Reads a request: id, idempotency key, wait for capacity, query parameters, and body. */
import { isUtf8 } from 'node:buffer';
import { createHash, randomBytes } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { DEFAULT_WAIT_S, MAX_WAIT_S, WAIT_HEADER } from '../../contract/compute/instance.ts';
import type { Idempotency } from '../../control/index.ts';
import { canonicalJson } from '../../domain/kernel/canonical-json.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { isObject, shapeOf } from './schema-shape.ts';

const LOGGABLE_ID = /^[A-Za-z0-9._~-]{1,100}$/;

export function makeRequestIds(): (header: string | string[] | undefined) => string {
  const start = randomBytes(6).toString('hex');
  let count = 0;
  return (header) => {
    if (typeof header === 'string' && LOGGABLE_ID.test(header)) return header;
    count += 1;
    return `${start}-${count.toString(36)}`;
  };
}

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

export function idempotencyOf(header: string | string[] | undefined, route: string, body: unknown): Idempotency | null {
  if (header === undefined) return null;
  const key = String(header);
  if (!IDEMPOTENCY_KEY.test(key)) {
    throw new Refusal(
      'field_value',
      'the header "Idempotency-Key" must be 1 to 255 visible ASCII characters, for example a UUID',
    );
  }
  return { key, route, bodyHash: createHash('sha256').update(canonicalJson(body)).digest('hex') };
}

/** Null: no quote. Control refuses a malformed one. */
export const quoteIdOf = (header: string | string[] | undefined): string | null =>
  header === undefined ? null : String(header);

const SECONDS = /^[1-9][0-9]{0,6}$/;

export function waitMsOf(header: string | string[] | undefined): number | null {
  if (header === undefined) return null;
  const text = String(header);
  const seconds = text === 'true' ? DEFAULT_WAIT_S : SECONDS.test(text) ? Number(text) : Number.NaN;
  if (seconds <= MAX_WAIT_S) return seconds * 1000;
  throw new Refusal(
    'field_value',
    `the header "${WAIT_HEADER}" must be "true" (waits for at most ${DEFAULT_WAIT_S / 3_600} hours) or whole seconds from 1 to ${MAX_WAIT_S}`,
  );
}

/** Longer numbers stay text, which validation refuses. */
const WHOLE_NUMBER = /^\d{1,16}$/;

/** Undefined if absent, an array if repeated. */
export const parameterOf = ({ query }: FastifyRequest, name: string): unknown =>
  typeof query === 'object' && query !== null && Object.hasOwn(query, name) ? Reflect.get(query, name) : undefined;

/** Converts text to the numbers, booleans and arrays of the schema; retains unknown names. */
export function queryOf(request: FastifyRequest, schema: z.ZodType): Record<string, unknown> {
  const shape = shapeOf(schema);
  if (shape.type !== 'object') throw new Error('the schema of a query must be an object');
  const converted = Object.fromEntries(
    shape.fields.map(({ name, shape: { type } }) => {
      const value = parameterOf(request, name);
      if (type === 'array' && typeof value === 'string') return [name, [value]];
      if (type === 'number' && typeof value === 'string' && WHOLE_NUMBER.test(value)) return [name, Number(value)];
      if (type === 'boolean' && (value === 'true' || value === 'false')) return [name, value === 'true'];
      return [name, value];
    }),
  );
  return { ...(isObject(request.query) ? request.query : {}), ...converted };
}

const BYTE_ORDER_MARK = 0xfeff;
const FORM = /^\s*(multipart\/|application\/x-www-form-urlencoded)/i;

const SEND_JSON = 'send a JSON object with the header "content-type: application/json"';

export function checkBodyHeaders(headers: { 'content-type'?: string; 'content-encoding'?: string }): void {
  const type = headers['content-type'];
  if (type !== undefined && FORM.test(type)) throw new Refusal('body_not_json', `the body is a form: ${SEND_JSON}`);
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding !== '' && encoding.toLowerCase() !== 'identity') {
    throw new Refusal(
      'body_not_json',
      'the body has a content-encoding: send the body uncompressed, without this header',
    );
  }
}

/** Takes bytes that `body-reader.ts` has counted. Gives a value or a refusal, never a fault. */
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
  return position === undefined ? 'it is incomplete, or not JSON' : `it is invalid from character ${position} on`;
}

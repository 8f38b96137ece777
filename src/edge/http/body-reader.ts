/**
 * Reads request bodies within the limits of their route. Members and depth of JSON are counted
 * while the bytes arrive, so that parsing begins only if its cost is bounded.
 */
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { MAX_BODY_DEPTH, MAX_BODY_MEMBERS } from '../../contract/common.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { BodyBudget, OpenBody } from './body-budget.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Most bytes of JSON without spaces, an escape counted as its character. Absent: no JSON. */
    jsonBytes?: number;
  }
}

/** An escape `\u0000` has twice the bytes of a character in UTF-8. */
const ESCAPED = 2;

/** `bodyLimit` of a route with `jsonBytes`; exact where they are the limit of all routes. */
export const wireBytesOf = (jsonBytes: number, most: number): number => Math.min(most, ESCAPED * jsonBytes);

export interface BodyLimits {
  wireBytes: number;
  jsonBytes?: number | undefined;
  /** Limit of the bodies that are read together. */
  budget: BodyBudget;
}

const NOTHING = Buffer.alloc(0);

/** `done` is called once. After a refusal by its JSON the rest of the body is read and dropped. */
export function readBody(
  { headers: { 'content-length': length }, caller }: Pick<FastifyRequest, 'headers' | 'caller'>,
  payload: IncomingMessage,
  { wireBytes, jsonBytes, budget }: BodyLimits,
  done: (error: Error | null, bytes: Buffer, readBytes: number) => void,
): void {
  const announced = length === undefined ? wireBytes : Number(length);
  if (announced > wireBytes) return done(bodyTooLarge(jsonBytes ?? wireBytes), NOTHING, 0);
  const scan = jsonBytes === undefined ? null : makeJsonScan(jsonBytes);
  let bytes: Buffer = NOTHING;
  let used = 0;
  let refused: Refusal | null = null;
  let hasEnded = false;

  const end = (error: Error | null): void => {
    hasEnded = true;
    budget.release(open);
    const read = bytes.subarray(0, used);
    bytes = NOTHING;
    done(error, read, used);
  };
  const open: OpenBody = { accountId: caller?.accountId ?? null, drop: () => end(tooManyBytes()) };
  const onData = (piece: Buffer): void => {
    if (hasEnded) return;
    used += piece.length;
    if (used > wireBytes) return end(bodyTooLarge(jsonBytes ?? wireBytes));
    if (refused !== null) return;
    if (piece.length === announced) bytes = piece;
    else if (used > bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(announced, Math.max(used, 2 * bytes.length)));
      bytes.copy(larger);
      budget.add(open, larger.length - bytes.length);
      if (hasEnded) return;
      bytes = larger;
    }
    if (piece !== bytes) piece.copy(bytes, used - piece.length);
    refused = scan?.(piece) ?? null;
    if (refused === null) return;
    bytes = NOTHING;
    budget.release(open);
  };
  const onEnd = (): void => {
    if (!hasEnded) end(refused);
  };
  const onError = (): void => {
    if (!hasEnded) end(new Refusal('body_not_json', 'the request ended before its body was complete'));
  };
  payload.on('data', onData).on('end', onEnd).on('error', onError).on('close', onError);
}

const tooManyBytes = (): Refusal =>
  new Refusal(
    'unavailable',
    'later requests took the memory for request bodies before this one was complete: send it again at once, and fewer at a time',
    { retryAfterS: 1 },
  );

const [QUOTE, BACKSLASH, COMMA, LETTER_U] = [0x22, 0x5c, 0x2c, 0x75];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
const SPACE = 0x20;
/** `\u00e9` counts as three bytes. */
const UNICODE_ESCAPE_EXTRA = 3;

type Place = 'between' | 'string' | 'escape';

/** Counts brackets and commas outside of strings: also of text that is no JSON. */
export function makeJsonScan(maxBytes: number): (piece: Uint8Array) => Refusal | null {
  let depth = 0;
  let members = 0;
  let counted = 0;
  let place: Place = 'between';
  return (piece) => {
    counted += piece.length;
    for (let at = 0; at < piece.length; at += 1) {
      const byte = piece[at] ?? SPACE;
      if (place === 'escape') {
        counted -= byte === LETTER_U ? UNICODE_ESCAPE_EXTRA : 1;
        place = 'string';
      } else if (place === 'string') {
        if (byte === QUOTE) place = 'between';
        else if (byte === BACKSLASH) place = 'escape';
      } else if (byte <= SPACE) counted -= 1;
      else if (byte === QUOTE) place = 'string';
      else if (byte === COMMA) members += 1;
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        depth += 1;
        members += 1;
        if (depth > MAX_BODY_DEPTH) return tooDeep();
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
    }
    if (members > MAX_BODY_MEMBERS) return tooManyMembers();
    return counted > maxBytes ? bodyTooLarge(maxBytes) : null;
  };
}

const tooDeep = (): Refusal =>
  new Refusal(
    'body_not_json',
    `the body nests arrays and objects more than ${MAX_BODY_DEPTH} levels deep: send at most ${MAX_BODY_DEPTH}`,
  );

const tooManyMembers = (): Refusal =>
  new Refusal(
    'body_too_large',
    `the body has more than ${MAX_BODY_MEMBERS} members and items: send at most ${MAX_BODY_MEMBERS} in all its objects and arrays together`,
  );

const KIB = 1024;

const bodyTooLarge = (most: number): Refusal => {
  const size = most < KIB * KIB ? `${most / KIB} KiB` : `${most / KIB / KIB} MiB`;
  return new Refusal('body_too_large', `the body is too large: at most ${most} bytes (${size}) are read`);
};

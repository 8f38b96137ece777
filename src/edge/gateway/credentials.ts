import type { Credential } from '../../control/index.ts';
import { isApiKey } from '../../domain/access/api-key.ts';
import type { Head } from './head.ts';

/** Bounds what a long connection retains; longer values are never Berth's. */
const MAX_CACHED_LENGTH = 4_096;

export interface Presented {
  credential: Credential;
  ours: boolean;
}

export class Credentials {
  readonly #issuer: string;
  #authorization: string | null = null;
  #apiKey: string | null = null;
  #presented: Presented | null = null;

  constructor(issuer: string) {
    this.#issuer = issuer;
  }

  presentedBy({ authorization, apiKey }: Pick<Head, 'authorization' | 'apiKey'>): Presented | null {
    if (authorization === this.#authorization && apiKey === this.#apiKey) return this.#presented;
    const presented = presentedCredential(authorization, apiKey, this.#issuer);
    if ((authorization?.length ?? 0) + (apiKey?.length ?? 0) > MAX_CACHED_LENGTH) return presented;
    this.#presented = presented;
    this.#authorization = authorization;
    this.#apiKey = apiKey;
    return presented;
  }
}

/** Prefers `Authorization`, as the API does, unless only the other header is Berth's. */
function presentedCredential(authorization: string | null, apiKey: string | null, issuer: string): Presented | null {
  const bearer = authorization === null ? null : bearerOf(authorization);
  const fromBearer: Presented | null =
    bearer === null ? null : { credential: credentialOf(bearer), ours: isOurs(bearer, issuer) };
  if (fromBearer?.ours === true || apiKey === null) return fromBearer;
  const fromKey: Presented = { credential: { kind: 'apiKey', key: apiKey }, ours: isOurs(apiKey, issuer) };
  return fromKey.ours || fromBearer === null ? fromKey : fromBearer;
}

/** OpenAI-style programs send API keys as bearer. */
const credentialOf = (bearer: string): Credential =>
  isApiKey(bearer) ? { kind: 'apiKey', key: bearer } : { kind: 'token', token: bearer };

function bearerOf(authorization: string): string | null {
  if (authorization.length < 8 || authorization.slice(0, 7).toLowerCase() !== 'bearer ') return null;
  const token = authorization.slice(7).trim();
  return token === '' || token.includes(' ') ? null : token;
}

/** Finds Berth's credentials in a header value: alone, after a scheme, in a list, or in Basic. */
export function holdsOurs(value: string, issuer: string): boolean {
  for (const word of value.split(WORD_ENDS)) {
    if (word !== '' && isOurs(word, issuer)) return true;
  }
  if (value.slice(0, 6).toLowerCase() !== 'basic ') return false;
  return Buffer.from(value.slice(6), 'base64')
    .toString('latin1')
    .split(WORD_ENDS)
    .some((word) => isOurs(word, issuer));
}

const WORD_ENDS = /[\s,;:"'=]+/;

function isOurs(word: string, issuer: string): boolean {
  if (isApiKey(word)) return true;
  const first = word.indexOf('.');
  if (first < 1) return false;
  const second = word.indexOf('.', first + 1);
  if (second < 0) return false;
  return issuerOf(word.slice(first + 1, second)) === issuer;
}

function issuerOf(payload: string): unknown {
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
    return typeof claims === 'object' && claims !== null && 'iss' in claims ? claims.iss : undefined;
  } catch {
    return undefined;
  }
}

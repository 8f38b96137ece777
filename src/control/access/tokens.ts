/**
 * Access tokens: JWTs (RFC 7519) signed with Ed25519; `jti` is the id of the login (RFC 8725).
 * `node:crypto` checks the signature: jose takes 1.3 times its processor time.
 */
import { verify as isSignedBy } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader, SignJWT, type JWTPayload, type ProtectedHeaderParameters } from 'jose';
import { ALGORITHM, TOKEN_LIFE_S, type SigningRing } from './signing-ring.ts';
import type { Time } from '../kernel/ports.ts';

const TYPE = 'JWT';
const SKEW_S = 60;
const MAX_TOKEN_CHARACTERS = 4096;
/** Three parts of base64url; the last holds a 64-byte signature. */
const SHAPE = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.([A-Za-z0-9_-]{86})$/;

export interface TokenClaims {
  accountId: string;
  sessionId: string;
  expiresAtMs: number;
}

export interface Tokens {
  sign(login: {
    accountId: string;
    sessionId: string;
    roles: readonly string[];
  }): Promise<{ token: string; expiresAtMs: number }>;
  /** Null unless the token is valid now. The store decides about its login. */
  verify(token: string): Promise<TokenClaims | null>;
}

const headerOf = (token: string): ProtectedHeaderParameters | null => nullIfThrown(() => decodeProtectedHeader(token));
const payloadOf = (token: string): JWTPayload | null => nullIfThrown(() => decodeJwt(token));

function nullIfThrown<T>(parse: () => T): T | null {
  try {
    return parse();
  } catch {
    return null;
  }
}

const isWhole = (value: unknown): value is number => Number.isSafeInteger(value);

export const makeTokens = (deps: {
  ring: SigningRing;
  issuer: string;
  audience: string;
  time: Pick<Time, 'now'>;
}): Tokens => {
  const { ring, issuer, audience, time } = deps;

  return {
    async sign({ accountId, sessionId, roles }) {
      const { kid, privateKey } = await ring.signer();
      const issuedAtS = Math.floor(time.now() / 1000);
      const expiresAtS = issuedAtS + TOKEN_LIFE_S;
      const token = await new SignJWT({ group: [...roles] })
        .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid })
        .setIssuer(issuer)
        .setAudience([audience])
        .setSubject(accountId)
        .setIssuedAt(issuedAtS)
        .setExpirationTime(expiresAtS)
        .setJti(sessionId)
        .sign(privateKey);
      return { token, expiresAtMs: expiresAtS * 1000 };
    },

    async verify(token) {
      if (token.length > MAX_TOKEN_CHARACTERS) return null;
      const signature = SHAPE.exec(token)?.[1];
      if (signature === undefined) return null;
      const signatureBytes = Buffer.from(signature, 'base64url');
      // The last character has four unused bits: accept only one of its sixteen encodings.
      if (signatureBytes.toString('base64url') !== signature) return null;
      const header = headerOf(token);
      if (header?.alg !== ALGORITHM || header.typ !== TYPE || typeof header.kid !== 'string') return null;
      if (Object.keys(header).length !== 3) return null;

      const key = await ring.verifier(header.kid);
      const signed = Buffer.from(token.slice(0, -signature.length - 1));
      if (key === null || !isSignedBy(null, signed, key, signatureBytes)) return null;
      const { iss, sub, jti, iat, exp, nbf, aud, group } = payloadOf(token) ?? {};
      if (iss !== issuer || !Array.isArray(aud) || !aud.includes(audience) || nbf !== undefined) return null;
      if (typeof sub !== 'string' || typeof jti !== 'string' || !Array.isArray(group)) return null;
      const nowS = time.now() / 1000;
      if (!isWhole(iat) || !isWhole(exp) || exp - iat !== TOKEN_LIFE_S || iat > nowS + SKEW_S || exp <= nowS)
        return null;
      return { accountId: sub, sessionId: jti, expiresAtMs: exp * 1000 };
    },
  };
};

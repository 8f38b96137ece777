/** Logout tokens of OpenID Connect Back-Channel Logout 1.0. */
import { createRemoteJWKSet, errors, jwtVerify, type JWTPayload, type JWTVerifyGetKey } from 'jose';
import { makeUsedKeys } from '../../../async/used-keys.ts';
import { idOf } from '../../../domain/access/sign-on-claims.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
const MAX_AGE_S = 120;
const TOLERANCE_S = 30;

/** At least one of `subject` and `sid` is set. */
export interface EndedLogin {
  subject: string | null;
  sid: string | null;
}

/** A reading of the metadata. */
interface Provider {
  serverMetadata(): {
    issuer: string;
    jwks_uri?: string | undefined;
    id_token_signing_alg_values_supported?: string[] | undefined;
  };
}

const invalid = (why: string): Refusal => new Refusal('field_value', `the logout token is not valid: ${why}`);

const isPublicKeyAlgorithm = (name: string): boolean => /^(?:RS|PS|ES|Ed)/.test(name);

export function makeLogoutTokens(clientId: string) {
  let keys: { of: Provider; get: JWTVerifyGetKey } | null = null;
  const used = makeUsedKeys();

  /** Keys are as old as the metadata at most. */
  const keysOf = (of: Provider): JWTVerifyGetKey => {
    const { jwks_uri: uri } = of.serverMetadata();
    if (uri === undefined) throw invalid('the metadata of the provider name no keys');
    if (keys?.of !== of) keys = { of, get: createRemoteJWKSet(new URL(uri)) };
    return keys.get;
  };

  const verify = async (token: string, provider: Provider): Promise<JWTPayload> => {
    const { issuer, id_token_signing_alg_values_supported: listed = ['RS256'] } = provider.serverMetadata();
    const algorithms = listed.filter(isPublicKeyAlgorithm);
    const options = { issuer, audience: clientId, algorithms, clockTolerance: TOLERANCE_S };
    try {
      const requiredClaims = ['iat', 'jti', 'events'];
      const { payload } = await jwtVerify(token, keysOf(provider), {
        ...options,
        requiredClaims,
        maxTokenAge: MAX_AGE_S,
      });
      return payload;
    } catch (error) {
      if (error instanceof errors.JWKSTimeout || !(error instanceof errors.JOSEError || error instanceof Refusal)) {
        const message = 'the keys of the login provider cannot be read at the moment';
        throw new Refusal('unavailable', message, { retryAfterS: 10, detail: error });
      }
      throw error instanceof Refusal ? error : invalid(error.message);
    }
  };

  return {
    async read(token: string, provider: Provider): Promise<EndedLogin> {
      const { jti = '', sub, sid, events, nonce } = await verify(token, provider);
      if (nonce !== undefined) throw invalid('it has a "nonce", as ID tokens have');
      const isLogout = typeof events === 'object' && events !== null && Object.hasOwn(events, EVENT);
      if (!isLogout) throw invalid(`"events" has no ${EVENT}`);
      for (const [name, value] of Object.entries({ sub, sid }))
        if (value !== undefined && idOf(value) === null)
          throw invalid(`"${name}" is not 1 to 255 characters without control characters`);
      const ended = { subject: idOf(sub), sid: idOf(sid) };
      if (ended.subject === null && ended.sid === null) throw invalid('it has neither "sub" nor "sid"');
      const endsAtMs = performance.now() + (MAX_AGE_S + 2 * TOLERANCE_S) * 1_000;
      if (!used.use(jti, endsAtMs)) throw invalid('it was used before');
      return ended;
    },
  };
}

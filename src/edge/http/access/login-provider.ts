/** Client of a provider of OpenID Connect: authorization code with PKCE, state and nonce. */
import * as openid from 'openid-client';
import type { Log } from '../../../control/index.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { claimsOf, type Claims, type SignOnRules } from '../../../domain/access/sign-on-rules.ts';

export interface LoginProviderSettings {
  issuer: string;
  clientId: string;
  clientSecret: string;
  scopes: string;
  /** URL of `/api/user/oidc/callback`, as registered at the provider. */
  redirectUri: string;
  rules: SignOnRules;
}

/** Secrets of a login under way, which only its browser has. */
export interface PendingLogin {
  state: string;
  nonce: string;
  verifier: string;
}

export interface LoginProvider {
  readonly issuer: string;
  readonly rules: SignOnRules;
  begin(): Promise<{ url: string; pending: PendingLogin }>;
  /** Claims of the ID token, or else of the user info. `query`: of the callback. */
  finish(query: string, pending: PendingLogin): Promise<Claims>;
}

const TIMEOUT_S = 10;

export function makeLoginProvider(settings: LoginProviderSettings, log: Pick<Log, 'warn'>): LoginProvider {
  const { issuer, clientId, clientSecret, scopes, redirectUri, rules } = settings;
  let discovered: Promise<openid.Configuration> | null = null;

  /** Asks the provider once; again after a failure. */
  const configuration = (): Promise<openid.Configuration> => {
    const execute = [
      // Checks the signature of ID tokens, which the code flow leaves to TLS.
      openid.enableNonRepudiationChecks,
      ...(issuer.startsWith('http:') ? [openid.allowInsecureRequests] : []),
    ];
    const options = { timeout: TIMEOUT_S, execute };
    discovered ??= openid
      .discovery(new URL(issuer), clientId, clientSecret, undefined, options)
      .catch((error: unknown) => {
        discovered = null;
        throw error;
      });
    return discovered;
  };

  const orRefuse = async <Answer>(asking: Promise<Answer>): Promise<Answer> => {
    try {
      return await asking;
    } catch (error) {
      log.warn({ err: error, issuer }, 'a login by the provider failed');
      throw refusalOf(error, issuer);
    }
  };

  return {
    issuer,
    rules,
    async begin() {
      const verifier = openid.randomPKCECodeVerifier();
      const pending = { state: openid.randomState(), nonce: openid.randomNonce(), verifier };
      const url = openid.buildAuthorizationUrl(await orRefuse(configuration()), {
        redirect_uri: redirectUri,
        scope: scopes,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        state: pending.state,
        nonce: pending.nonce,
      });
      return { url: url.href, pending };
    },
    finish: (query, { state, nonce, verifier }) =>
      orRefuse(
        (async () => {
          const config = await configuration();
          const tokens = await openid.authorizationCodeGrant(config, new URL(`${redirectUri}?${query}`), {
            expectedState: state,
            expectedNonce: nonce,
            pkceCodeVerifier: verifier,
            idTokenExpected: true,
          });
          const claims = tokens.claims();
          if (claims === undefined) throw new Error('the provider sent no ID token');
          const { userinfo_endpoint: hasUserInfo } = config.serverMetadata();
          const info = hasUserInfo ? await openid.fetchUserInfo(config, tokens.access_token, claims.sub) : {};
          return claimsOf(rules, [claims, info]);
        })(),
      ),
  };
}

const AWAY = new Set(['OAUTH_TIMEOUT', 'OAUTH_RESPONSE_IS_NOT_CONFORM', 'OAUTH_RESPONSE_IS_NOT_JSON']);

function refusalOf(error: unknown, issuer: string): Refusal {
  if (error instanceof openid.AuthorizationResponseError) {
    const message = `the login provider ${issuer} refused the login (${error.error}): log in again`;
    return new Refusal('not_logged_in', message);
  }
  const isAway = error instanceof TypeError || (error instanceof openid.ClientError && AWAY.has(error.code ?? ''));
  return isAway
    ? new Refusal(
        'unavailable',
        `the login provider ${issuer} does not answer: try again in a moment, or log in with a password if you have one`,
        { retryAfterS: 10 },
      )
    : new Refusal('not_logged_in', `the answer of the login provider ${issuer} is not valid: log in again`);
}

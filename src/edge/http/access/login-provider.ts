/** Client of a provider of OpenID Connect: authorization code with PKCE, state and nonce. */
import * as openid from 'openid-client';
import type { Log } from '../../../control/index.ts';
import { claimsOf, type Claims } from '../../../domain/access/sign-on-claims.ts';
import { lacksClaims, readsGroups, type SignOnRules } from '../../../domain/access/sign-on-rules.ts';
import { makeLogoutTokens, type EndedLogin } from './logout-token.ts';
import { failureOf, isOfCallback, refusalOf, UnsupportedProvider } from './login-failures.ts';

/** Escapes as RFC 6749, 2.3.1: openid-client escapes hyphens too, and some decode nothing. */
export const basicAuth =
  (secret: string): openid.ClientAuth =>
  (_metadata, { client_id: id }, _body, headers) => {
    const [name, value] = [id, secret].map((text) => new URLSearchParams([[text, '']]).toString().slice(0, -1));
    headers.set('authorization', `Basic ${Buffer.from(`${name}:${value}`).toString('base64')}`);
  };

const authentications = {
  client_secret_basic: basicAuth,
  client_secret_post: openid.ClientSecretPost,
  client_secret_jwt: openid.ClientSecretJwt,
};
export type TokenAuth = keyof typeof authentications;

const isTokenAuth = (name: string): name is TokenAuth => Object.hasOwn(authentications, name);
export const tokenAuths = Object.keys(authentications).filter(isTokenAuth);

export interface LoginProviderSettings {
  issuer: string;
  /** Name on the button; null: the issuer's host. */
  displayName: string | null;
  clientId: string;
  clientSecret: string;
  /** Authentication at the token endpoint; null: by the provider's metadata. */
  tokenAuth: TokenAuth | null;
  scopes: string;
  /** Whether a logout at Berth ends the login at the provider. */
  endsAtProvider: boolean;
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
  readonly displayName: string;
  readonly rules: SignOnRules;
  /** `choosesAccount`: the provider asks for the account. */
  begin(options: { choosesAccount: boolean }): Promise<{ url: string; pending: PendingLogin }>;
  /** `claims`: of the ID token, or else of the user info. `query`: of the callback. */
  finish(query: string, pending: PendingLogin): Promise<{ claims: Claims; idToken: string }>;
  /** URL that ends the login at the provider; null without one. */
  logoutUrl(idToken: string | null): Promise<string | null>;
  /** Verifies a logout token of the provider, once. Throws `field_value` or `unavailable`. */
  readLogout(token: string): Promise<EndedLogin>;
}

export interface OwnLoginProvider extends LoginProvider {
  /** Asks the provider for metadata, and logs faults. Never throws. */
  check(): Promise<void>;
  /** Sentence for the operator; null: none. */
  trouble(): string | null;
}

const TIMEOUT_S = 10;
const RECHECK_MS = 10_000;
/** Life of the metadata, and of the keys with them. */
const METADATA_MS = 60_000;
/** Needed for each login. */
const ENDPOINTS = ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const;

export function makeLoginProvider(settings: LoginProviderSettings, log: Pick<Log, 'warn'>): OwnLoginProvider {
  const { issuer, displayName, clientId, clientSecret, scopes, redirectUri, rules } = settings;
  const troubles: { discovery: string | null; login: string | null } = { discovery: null, login: null };
  const logoutTokens = makeLogoutTokens(clientId);
  let discovered: Promise<openid.Configuration> | null = null;
  let askedAtMs = 0;

  const authenticate: openid.ClientAuth = (as, ...request) =>
    authentications[tokenAuthOf(settings.tokenAuth, as)](clientSecret)(as, ...request);

  const discover = async (): Promise<openid.Configuration> => {
    askedAtMs = performance.now();
    const execute = [
      // Checks the signature of ID tokens, which the code flow leaves to TLS.
      openid.enableNonRepudiationChecks,
      ...(issuer.startsWith('http:') ? [openid.allowInsecureRequests] : []),
    ];
    try {
      const options = { timeout: TIMEOUT_S, execute };
      const config = await openid.discovery(new URL(issuer), clientId, clientSecret, authenticate, options);
      const metadata = config.serverMetadata();
      tokenAuthOf(settings.tokenAuth, metadata);
      const missing = ENDPOINTS.find((name) => !URL.canParse(metadata[name] ?? ''));
      if (missing !== undefined) throw new UnsupportedProvider(noAddress(missing, metadata[missing]));
      troubles.discovery = null;
      return config;
    } catch (error) {
      discovered = null;
      throw failed(error, 'discovery');
    }
  };

  /** Asks the provider again after a while, and after a failure that is not the person's. */
  const configuration = (): Promise<openid.Configuration> => {
    if (performance.now() - askedAtMs > METADATA_MS) discovered = null;
    return (discovered ??= discover());
  };

  /** Logs the cause, and returns the refusal of the login. */
  const failed = (error: unknown, step: keyof typeof troubles): Error => {
    const failure = failureOf(error, { issuer, step });
    const { by, text, isExplained } = failure;
    if (step === 'discovery' && troubles.discovery === text) return refusalOf(failure, error, issuer);
    if (by !== 'person' && !isOfCallback(error)) {
      troubles[step] = text;
      discovered = null;
    }
    log.warn({ issuer, ...(isExplained ? {} : { err: error }) }, `a login by the provider is not possible: ${text}`);
    return refusalOf(failure, error, issuer);
  };

  const exchange = async (
    config: openid.Configuration,
    query: string,
    pending: PendingLogin,
  ): ReturnType<LoginProvider['finish']> => {
    try {
      const tokens = await openid.authorizationCodeGrant(config, new URL(`${redirectUri}?${query}`), {
        expectedState: pending.state,
        expectedNonce: pending.nonce,
        pkceCodeVerifier: pending.verifier,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (claims === undefined) throw new UnsupportedProvider('the provider sent no ID token');
      const asksMore = config.serverMetadata().userinfo_endpoint !== undefined && lacksClaims(rules, claims);
      const more = asksMore ? await openid.fetchUserInfo(config, tokens.access_token, claims.sub) : {};
      troubles.login = null;
      return { claims: claimsOf(rules, [claims, more]), idToken: tokens.id_token ?? '' };
    } catch (error) {
      throw failed(error, 'login');
    }
  };

  return {
    issuer,
    displayName: displayName ?? new URL(issuer).host,
    rules,
    async begin({ choosesAccount }) {
      const verifier = openid.randomPKCECodeVerifier();
      const pending = { state: openid.randomState(), nonce: openid.randomNonce(), verifier };
      const config = await configuration();
      const prompt = choosesAccount ? promptOf(config.serverMetadata()) : null;
      const url = openid.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope: scopes,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        state: pending.state,
        nonce: pending.nonce,
        ...(prompt === null ? {} : { prompt }),
      });
      return { url: url.href, pending };
    },
    finish: async (query, pending) => exchange(await configuration(), query, pending),
    async logoutUrl(idToken) {
      if (!settings.endsAtProvider) return null;
      const config = await configuration();
      if (!URL.canParse(config.serverMetadata().end_session_endpoint ?? '')) return null;
      // Registered already, and unlike the login page at all providers.
      const back = { post_logout_redirect_uri: redirectUri };
      return openid.buildEndSessionUrl(config, { ...back, ...(idToken !== null && { id_token_hint: idToken }) }).href;
    },
    readLogout: async (token) => logoutTokens.read(token, await configuration()),
    async check() {
      try {
        for (const notice of noticesOf(settings, (await configuration()).serverMetadata()))
          log.warn({ issuer, scopes }, notice);
      } catch {}
    },
    trouble() {
      if (troubles.discovery !== null && performance.now() - askedAtMs > RECHECK_MS) void this.check();
      return troubles.discovery ?? troubles.login;
    },
  };
}

/** Provider that takes `select_account` alone, and lists no prompts. */
const GOOGLE = 'https://accounts.google.com';

/** Prompt for another account: a provider of one session at a time asks by `login` alone. */
export function promptOf({
  issuer,
  prompt_values_supported: listed,
}: Pick<openid.ServerMetadata, 'issuer'> & { prompt_values_supported?: unknown }): string | null {
  if (!Array.isArray(listed)) return issuer === GOOGLE ? 'select_account' : 'login';
  return ['select_account', 'login'].find((prompt) => listed.includes(prompt)) ?? null;
}

function noticesOf(settings: LoginProviderSettings, metadata: openid.ServerMetadata): string[] {
  const { end_session_endpoint: end } = metadata;
  const lacksEnd = settings.endsAtProvider && end !== undefined && !URL.canParse(end);
  const notices = [groupsNotice(settings, metadata), lacksEnd ? noAddress('end_session_endpoint', end) : null];
  return notices.filter((notice) => notice !== null);
}

function groupsNotice(
  { rules, scopes }: LoginProviderSettings,
  { claims_supported: offered }: openid.ServerMetadata,
): string | null {
  const claim = rules.groupsClaim.split('.')[0] ?? '';
  if (!readsGroups(rules) || scopes.split(' ').includes(claim)) return null;
  if (Array.isArray(offered) && offered.includes(claim)) return null;
  return `settings read groups from the claim "${rules.groupsClaim}", and neither BERTH_OIDC_SCOPES nor the metadata of the login provider name it: make sure that the provider sends it, and try a token with npm run admin -- sign-on-check`;
}

const noAddress = (name: string, given: string | undefined): string =>
  `the metadata of the login provider have ${given === undefined ? 'nothing' : JSON.stringify(given)} as "${name}", which is no address`;

/** Basic is the default of OpenID Connect for metadata that list nothing. */
export function tokenAuthOf(
  setting: TokenAuth | null,
  metadata: Pick<openid.ServerMetadata, 'token_endpoint_auth_methods_supported'>,
): TokenAuth {
  if (setting !== null) return setting;
  const listed = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  const usable = tokenAuths.find((name) => listed.includes(name));
  if (usable !== undefined) return usable;
  throw new UnsupportedProvider(
    `the token endpoint takes ${listed.join(', ')}, and Berth ${tokenAuths.join(', ')}: allow the client one of these, and name it in BERTH_OIDC_TOKEN_AUTH if the metadata do not list it`,
  );
}

/** Causes of failed logins by a provider: words for the operator, and a refusal for the person. */
import * as openid from 'openid-client';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';

export interface LoginFailure {
  /** Responsible party; `provider`: an outage, or too many requests. */
  by: 'person' | 'operator' | 'provider';
  text: string;
  /** False: the log needs the error besides. */
  isExplained: boolean;
}

const explained = (by: LoginFailure['by'], text: string): LoginFailure => ({ by, text, isExplained: true });

interface Asked {
  issuer: string;
  step: 'discovery' | 'login';
}

export class UnsupportedProvider extends Error {}

/** Faults in the query of the callback, which anybody can write: no evidence about the provider. */
export function isOfCallback(error: unknown): boolean {
  if (error instanceof openid.AuthorizationResponseError) return true;
  const isInvalid = error instanceof openid.ClientError && UNUSABLE.has(error.code ?? '');
  if (!isInvalid || !(error.cause instanceof Error) || error.cause instanceof DOMException) return false;
  const { cause: details } = error.cause;
  return details === undefined || memberOf(details, 'parameters') !== undefined;
}

const UNUSABLE = new Set(['OAUTH_INVALID_RESPONSE', 'OAUTH_UNSUPPORTED_OPERATION']);

export function failureOf(error: unknown, { issuer, step }: Asked): LoginFailure {
  if (error instanceof UnsupportedProvider) return explained('operator', error.message);
  if (error instanceof openid.AuthorizationResponseError) return refusedAtProvider(error);
  if (error instanceof openid.ResponseBodyError) return refusedByEndpoint(error);
  if (error instanceof openid.WWWAuthenticateChallengeError) return challenged(error);
  if (error instanceof openid.ClientError && error.code === 'OAUTH_TIMEOUT')
    return explained('provider', `the login provider ${issuer} does not answer in time`);
  const known =
    (error instanceof TypeError && networkFailure(error, issuer)) ||
    (error instanceof openid.ClientError && invalidAnswer(error, { issuer, step }));
  if (known) return known;
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause.message : errorText(error);
  if (step === 'discovery') {
    const text = `${issuer} is no provider of OpenID Connect, or its metadata is not valid: check BERTH_OIDC_ISSUER`;
    return { by: 'operator', text, isExplained: false };
  }
  if (isOfCallback(error)) {
    const text = `the answer that the browser brought is not valid (${reason})`;
    return { by: 'person', text, isExplained: false };
  }
  const text = `an answer of the login provider ${issuer} is not valid (${reason})`;
  return { by: 'operator', text, isExplained: false };
}

const described = ({ error, error_description: more }: { error: string; error_description?: string | undefined }) =>
  more === undefined ? error : `${error}: ${more}`;

const WRONG_REQUEST = new Set([
  'invalid_request',
  'invalid_scope',
  'unauthorized_client',
  'unsupported_response_type',
  'request_not_supported',
]);
const isBusy = (status: number): boolean => status >= 500 || status === 429;
const OUTAGE = new Set(['server_error', 'temporarily_unavailable']);

function refusedAtProvider(error: openid.AuthorizationResponseError): LoginFailure {
  const said = `the provider refused the login (${described(error)})`;
  if (OUTAGE.has(error.error)) return explained('provider', said);
  if (!WRONG_REQUEST.has(error.error)) return explained('person', said);
  return explained('operator', `${said}: check BERTH_OIDC_SCOPES, and the rights of the client at the provider`);
}

const WRONG_SECRET =
  'check BERTH_OIDC_CLIENT_ID, the file of BERTH_OIDC_CLIENT_SECRET_FILE, and how the client authenticates at the provider (BERTH_OIDC_TOKEN_AUTH)';

function refusedByEndpoint(error: openid.ResponseBodyError): LoginFailure {
  const said = `${error.response.url} refused the request (${described(error)})`;
  if (error.error === 'invalid_grant') return explained('person', said);
  if (OUTAGE.has(error.error) || isBusy(error.status)) return explained('provider', said);
  if (error.error !== 'invalid_client' && error.error !== 'unauthorized_client') return explained('operator', said);
  return explained('operator', `the provider refuses the client or its secret (${described(error)}): ${WRONG_SECRET}`);
}

function challenged({ cause, response: { url, status } }: openid.WWWAuthenticateChallengeError): LoginFailure {
  const said = `${url} answers ${status}`;
  if (cause.some(({ scheme }) => scheme === 'bearer')) return explained('operator', `${said} to the access token`);
  return explained('operator', `the provider refuses the client or its secret (${said}): ${WRONG_SECRET}`);
}

const ABOUT_TRUST =
  /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH/;

function networkFailure({ cause }: TypeError, issuer: string): LoginFailure | null {
  if (!(cause instanceof Error)) return null;
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
  const said = cause.message === '' ? code : cause.message;
  if (code === 'ENOTFOUND') {
    const text = `the host of the login provider ${issuer} has no address (${said}): check BERTH_OIDC_ISSUER and the DNS of this machine`;
    return explained('operator', text);
  }
  if (ABOUT_TRUST.test(code)) {
    const text = `the certificate of the login provider ${issuer} is not accepted (${said}): if a private CA issued it, set NODE_EXTRA_CA_CERTS to a PEM file of that CA`;
    return explained('operator', text);
  }
  return explained('provider', `the login provider ${issuer} does not answer (${said})`);
}

function invalidAnswer(error: openid.ClientError, { issuer, step }: Asked): LoginFailure | null {
  const { code, cause } = error;
  if (cause instanceof Response) {
    const { url, status } = cause;
    const kind = code === 'OAUTH_RESPONSE_IS_NOT_JSON' ? ` with ${cause.headers.get('content-type')}, not JSON` : '';
    const text = `${url} answers ${status}${kind}`;
    if (isBusy(status)) return explained('provider', text);
    return explained('operator', step === 'discovery' ? `${text}: check BERTH_OIDC_ISSUER` : text);
  }
  if (step === 'discovery' && code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') {
    const named = memberOf(memberOf(cause, 'body'), 'issuer');
    const text = `the provider names itself ${JSON.stringify(named)}, not ${JSON.stringify(issuer)}: set BERTH_OIDC_ISSUER to that name`;
    return explained('operator', text);
  }
  const details = cause instanceof Error ? cause.cause : undefined;
  if (code === 'OAUTH_KEY_SELECTION_FAILED' || memberOf(details, 'signature') !== undefined) {
    const text = `no key that the login provider ${issuer} publishes verifies the ID token: the next login reads the keys again`;
    return explained('provider', text);
  }
  const parameters = memberOf(details, 'parameters');
  if (parameters instanceof URLSearchParams) {
    const named = JSON.stringify(parameters.get('iss'));
    return explained(
      'operator',
      `the callback has ${named} as "iss", not ${JSON.stringify(issuer)}: check BERTH_OIDC_ISSUER`,
    );
  }
  const claims = memberOf(details, 'claims');
  const claim = memberOf(details, 'claim');
  if (typeof claim !== 'string') return null;
  const value = memberOf(claims, claim);
  if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') {
    // The end says nothing of the clocks: a token lasts as long as the provider likes.
    const [name, atS] = claim === 'exp' ? ['iat', memberOf(claims, 'iat')] : [claim, value];
    const apartS = Math.abs(Number(atS) - Number(memberOf(details, 'now')));
    const text = `the clocks of the login provider and of this machine differ: "${name}" of the ID token is ${apartS} s off; set both by NTP`;
    return explained('operator', text);
  }
  if (code !== 'OAUTH_JWT_CLAIM_COMPARISON_FAILED') return null;
  // A code of another login, brought here.
  if (claim === 'nonce') return explained('person', 'the ID token is of another login');
  const said = `the ID token has ${JSON.stringify(value)} as "${claim}"`;
  const expected = memberOf(details, 'expected');
  if (claim === 'aud' && expected === undefined) {
    const text = `${said}, and names none of them as "azp": let the provider name BERTH_OIDC_CLIENT_ID there, or as the only audience`;
    return explained('operator', text);
  }
  const setting = claim === 'iss' ? 'BERTH_OIDC_ISSUER' : 'BERTH_OIDC_CLIENT_ID';
  return explained('operator', `${said}, not ${JSON.stringify(expected)}: check ${setting}`);
}

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;

export function refusalOf({ by }: LoginFailure, error: unknown, issuer: string): Refusal {
  if (by === 'operator') {
    const message = `the login provider ${issuer} cannot be used, because its set-up needs a correction: tell the operator, who finds the cause in the log of this server; log in with a password if you have one`;
    return new Refusal('unavailable', message);
  }
  if (by === 'provider') {
    const message = `the login provider ${issuer} does not answer: try again in a moment, or log in with a password if you have one`;
    return new Refusal('unavailable', message, { retryAfterS: 10 });
  }
  const refused = error instanceof openid.AuthorizationResponseError ? error.error : null;
  const message =
    refused === null
      ? `the answer of the login provider ${issuer} is not valid: log in again`
      : `the login provider ${issuer} refused the login (${refused}): log in again, with another account if it refuses this one`;
  return new Refusal('not_logged_in', message);
}

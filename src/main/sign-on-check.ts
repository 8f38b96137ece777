/** Dry run of a login by a provider (`npm run admin -- sign-on-check`). */
import { decodeJwt } from 'jose';
import { z } from 'zod';
import { claimsOf, type Claims } from '../domain/access/sign-on-claims.ts';
import { decideLogin, type SignOnRules } from '../domain/access/sign-on-rules.ts';
import { Refusal } from '../domain/kernel/refusal.ts';

interface CheckedSettings {
  issuer: string;
  clientId: string;
  rules: SignOnRules;
}

const claimsObject = z.record(z.string(), z.unknown());

/**
 * `given`: claims as JSON, the answer of a token endpoint, or a JWT, unverified. Throws for another
 * text.
 */
function parseClaims(given: string): Claims {
  const text = given.trim();
  try {
    if (!text.startsWith('{')) return decodeJwt(text);
    const claims = claimsObject.parse(JSON.parse(text));
    const { id_token: token, sub } = claims;
    return sub === undefined && typeof token === 'string' ? decodeJwt(token) : claims;
  } catch {
    throw new Refusal('field_value', 'the text is neither a JSON object of claims nor a token (JWT)');
  }
}

/** Returns lines for the operator. */
export function checkSignOn(settings: CheckedSettings, given: string): { isAllowed: boolean; lines: string[] } {
  const { issuer, clientId, rules } = settings;
  const claims = parseClaims(given);
  const { iss, aud } = claims;
  const warnings = [
    ...(iss === undefined || iss === issuer
      ? []
      : [
          `Another issuer: the token is of ${JSON.stringify(iss)}, and BERTH_OIDC_ISSUER is ${JSON.stringify(issuer)}.`,
        ]),
    ...(aud === undefined || [aud].flat().includes(clientId)
      ? []
      : [
          `Another client: the token is for ${JSON.stringify(aud)}, and BERTH_OIDC_CLIENT_ID is ${JSON.stringify(clientId)}.`,
        ]),
  ];
  try {
    const { identity, emailReason, roleReason } = decideLogin(rules, issuer, claimsOf(rules, [claims]));
    const { username, role } = identity;
    const lines = [
      'Allowed.',
      `Name of a new account: ${username}`,
      `Email: ${emailReason}`,
      `Role: ${role ?? 'as before, or user for a new account'}; ${roleReason}`,
    ];
    return { isAllowed: true, lines: [...warnings, ...lines] };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const cause = claimsObject.safeParse(error.detail).data ?? {};
    const lines = Object.entries(cause).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
    return { isAllowed: false, lines: [...warnings, `Refused: ${error.message}`, ...lines] };
  }
}

/** Identities of login providers, for administrators. */
import { z } from 'zod';
import { isIssuer } from '../../domain/access/issuer.ts';
import { answer, id, integer, plainText, request, text, unixMs } from '../common.ts';
import { adminReadRoute, adminRoute } from '../route.ts';

const accountId = id.describe('Account ID');
const issuer = plainText(2_000).describe('Issuer, as the provider names itself');
const subject = plainText(255).describe('Subject (`sub`) of the person at the issuer, to the letter');
const validIssuer = plainText(2_000).refine(isIssuer, {
  error: 'must be an https URL without a query, to the letter as the provider names itself',
});

const identityListRequest = request('ListIdentitiesRequest', { accountId });
const identityRequest = request('IdentityRequest', { accountId, issuer, subject });
const identityLinkRequest = request('LinkIdentityRequest', {
  accountId,
  issuer: validIssuer.describe('Issuer, as the provider names itself'),
  subject: subject.refine((value) => value !== '', { error: 'must not be empty' }).meta({ minLength: 1 }),
});
const identitiesAnswer = answer('ListIdentitiesAnswer', {
  identities: z
    .array(
      answer('Identity', {
        issuer: text('Issuer'),
        subject: text('Subject of the person at the issuer'),
        createdAtUnixMs: unixMs('Time of the first login, or of the link'),
      }),
    )
    .describe('Identities that open the account, the oldest first'),
});
const identityMoveRequest = request('MoveIdentitiesRequest', {
  fromIssuer: issuer.describe('Former issuer'),
  toIssuer: validIssuer.describe('Issuer that has the same subjects now'),
});
const identityMoveAnswer = answer('MoveIdentitiesAnswer', {
  moved: integer('Identities that the new issuer has now'),
  skipped: integer('Identities that stay, because the new issuer has their subjects already'),
});

export const identityRoutes = {
  listIdentities: adminReadRoute('/admin/identity/list', identityListRequest, identitiesAnswer, {
    summary: 'List the identities of login providers that open an account (administrators)',
  }),
  linkIdentity: adminRoute('/admin/identity/link', identityLinkRequest, identitiesAnswer, {
    idempotent: true,
    summary: 'Let an identity of a login provider open an account (administrators)',
  }),
  unlinkIdentity: adminRoute('/admin/identity/unlink', identityRequest, identitiesAnswer, {
    idempotent: true,
    summary: 'Take an identity from an account, and end all its logins (administrators)',
  }),
  moveIdentities: adminRoute('/admin/identity/move', identityMoveRequest, identityMoveAnswer, {
    idempotent: true,
    summary: 'Give all identities of an issuer to another, which has the same subjects (administrators)',
  }),
} as const;

/** Berth at a real provider of OpenID Connect, whose people log in by a browser of the fixture. */
import { expect } from 'vitest';
import type { SignOnRules } from '../../../src/domain/access/sign-on-rules.ts';
import {
  makeLoginProvider,
  type LoginProviderSettings,
  type OwnLoginProvider,
} from '../../../src/edge/http/access/login-provider.ts';
import { CLIENT, type TestProvider, type Visit } from '../../fixtures/login-provider.ts';

export const rules: SignOnRules = {
  nameClaim: 'preferred_username',
  groupsClaim: 'groups',
  emailDomains: ['example.org'],
  trustsEmail: 'verified',
  groups: [],
  rolesByGroup: new Map(),
  linksByEmail: false,
};

/** Origin of Berth as the provider knows it; the browser of the fixture maps it to the edge. */
export const PUBLIC = 'http://berth.test';
export const REDIRECT = `${PUBLIC}/api/user/oidc/callback`;

interface Made {
  loginProvider: OwnLoginProvider;
  /** Sentences of the log, each with its facts. */
  logged: string[];
}

export function makeProviderOf(given: Pick<TestProvider, 'issuer'>, more: Partial<LoginProviderSettings> = {}): Made {
  const logged: string[] = [];
  const settings = {
    issuer: given.issuer,
    displayName: null,
    clientId: CLIENT.client_id,
    clientSecret: CLIENT.client_secret,
    tokenAuth: null,
    scopes: 'openid profile email',
    redirectUri: REDIRECT,
    rules,
    endsAtProvider: true,
    ...more,
  };
  const warn = (facts: object, text: string): void => void logged.push(`${text} ${JSON.stringify(facts)}`);
  return { loginProvider: makeLoginProvider(settings, { warn }), logged };
}

let people = 0;

/** Lets a new person log in at the provider. */
export function newPerson(
  provider: TestProvider,
  claims: Record<string, unknown> = {},
): { sub: string; name: string; email: string } {
  const name = `person-${(people += 1)}`;
  const email = `${name}@example.org`;
  provider.visitor.sub = `sub-${people}`;
  provider.people.set(provider.visitor.sub, { preferred_username: name, email, email_verified: true, ...claims });
  return { sub: provider.visitor.sub, name, email };
}

export const expectRefused = (visit: Visit, status: number, why: RegExp): void => {
  expect(visit).toMatchObject({ status, text: expect.stringMatching(new RegExp(why, 'i')) });
  expect(visit.headers.get('content-type')).toBe('text/html; charset=utf-8');
};

export const atCallback = ({ pathname }: URL): boolean => pathname.endsWith('/callback');

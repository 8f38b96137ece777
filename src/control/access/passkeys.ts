/**
 * Passkeys (WebAuthn), as a second factor and as a login of their own: the authenticator verifies
 * its person.
 */
import { errorText } from '../../domain/kernel/unknown-error.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { accountById } from '../../store/tables/accounts.ts';
import {
  deletePasskey,
  insertPasskey,
  passkeyByCredential,
  passkeysOf,
  usePasskey,
} from '../../store/tables/second-factors.ts';
import { sessionOf, type FactorChanges } from './factor-changes.ts';
import { startLogin, type LoginDeps } from './logins.ts';
import { makeChallenges, type Challenges } from './passkey-challenges.ts';
import { uuidFrom } from './random.ts';
import type { Passkeys } from './types.ts';

const MAX_PASSKEYS = 20;
const LOGIN = 'login by a passkey';

const setUpOf = (accountId: string, sessionId: string): string => `passkey of ${accountId} in ${sessionId}`;

const refused = (detail: string): Refusal =>
  new Refusal(
    'not_logged_in',
    'The passkey opens no account here, or the login took longer than 5 minutes. Try again, or log in with the password.',
    { detail },
  );

const invalid = (why: string): Refusal =>
  new Refusal('field_value', `the passkey is not valid: ${why}; add it once more`);

type PasskeyDeps = LoginDeps & { factorChanges: FactorChanges };

export function makePasskeys(deps: PasskeyDeps): Passkeys {
  const challenges = makeChallenges(deps);
  return { ...makeSetUp(deps, challenges), ...makeLogin(deps, challenges) };
}

function makeSetUp(deps: PasskeyDeps, challenges: Challenges): Pick<Passkeys, 'begin' | 'create' | 'delete'> {
  const { randomBytes, factorChanges } = deps;
  return {
    async begin(caller, proof, { rpId }) {
      const sessionId = sessionOf(caller);
      const { accountId, username } = caller;
      const known = await factorChanges.withProof(caller, proof, ({ tx }) => passkeysOf(tx, accountId));
      if (known.length >= MAX_PASSKEYS) {
        const message = `the account has ${MAX_PASSKEYS} passkeys, the most it may have: remove one first`;
        throw new Refusal('over_quota', message);
      }
      return {
        challenge: challenges.make(setUpOf(accountId, sessionId)),
        rpId,
        userHandle: Buffer.from(accountId).toString('base64url'),
        username,
        excludeIds: known.map(({ credentialId }) => credentialId),
      };
    },

    async create(caller, { name, credential: { id, transports, ...response } }, { rpId, origin }) {
      const sessionId = sessionOf(caller);
      const { accountId } = caller;
      const { verifyRegistrationResponse } = await import('@simplewebauthn/server');
      let challenge = '';
      const { registrationInfo } = await verifyRegistrationResponse({
        response: { id, rawId: id, type: 'public-key', response, clientExtensionResults: {} },
        expectedChallenge: (given) => challenges.isActive((challenge = given), setUpOf(accountId, sessionId)),
        expectedOrigin: origin,
        expectedRPID: rpId,
        requireUserVerification: true,
      }).catch((error: unknown) => {
        throw invalid(errorText(error));
      });
      if (registrationInfo === undefined) throw invalid('it is not signed');
      if (!challenges.useUp(challenge)) throw invalid('its challenge was used');
      const { publicKey, counter, id: credentialId } = registrationInfo.credential;
      return factorChanges.add(caller, async ({ tx, nowMs }) => {
        const row = {
          id: uuidFrom(randomBytes),
          accountId,
          name,
          credentialId,
          publicKey: Buffer.from(publicKey).toString('base64url'),
          counter,
          transports: JSON.stringify(transports),
          createdAtMs: nowMs,
          lastUsedAtMs: null,
        };
        if (!(await insertPasskey(tx, row))) throw new Refusal('name_taken', 'this passkey is registered here already');
        return { kind: 'passkey', name };
      });
    },

    delete: (caller, { id, ...proof }) =>
      factorChanges.remove(caller, proof, async ({ tx }) => {
        const row = await deletePasskey(tx, caller.accountId, id);
        if (row) return { kind: 'passkey', name: row.name };
        const message = `passkey ${JSON.stringify(id)} not found; POST /api/user/secondFactor/get lists yours`;
        throw new Refusal('not_found', message);
      }),
  };
}

function makeLogin(deps: PasskeyDeps, challenges: Challenges): Pick<Passkeys, 'beginLogin' | 'login'> {
  const { store, time, loginLimit } = deps;
  return {
    beginLogin: ({ rpId }) => ({ challenge: challenges.make(LOGIN), rpId }),

    async login({ id, ...response }, { rpId, origin }, from, userAgent = '') {
      const passkey = await passkeyByCredential(store.read, id);
      const account = passkey && (await accountById(store.read, passkey.accountId));
      if (passkey === undefined || account === undefined) throw refused('the passkey is unknown');
      const { verifyAuthenticationResponse } = await import('@simplewebauthn/server');
      const publicKey = Uint8Array.from(Buffer.from(passkey.publicKey, 'base64url'));
      let challenge = '';
      const { verified, authenticationInfo } = await verifyAuthenticationResponse({
        response: { id, rawId: id, type: 'public-key', response, clientExtensionResults: {} },
        expectedChallenge: (given) => challenges.isActive((challenge = given), LOGIN),
        expectedOrigin: origin,
        expectedRPID: rpId,
        requireUserVerification: true,
        credential: { id, publicKey, counter: passkey.counter },
      }).catch((error: unknown) => {
        throw refused(errorText(error));
      });
      if (!verified) throw refused('the signature is wrong');
      if (!challenges.useUp(challenge)) throw refused('the challenge was used');
      return startLogin(deps, account, {
        from,
        userAgent,
        async confirm(tx) {
          const use = { counter: authenticationInfo.newCounter, nowMs: time.now() };
          if (!(await usePasskey(tx, passkey.id, use))) throw refused('the counter did not grow');
          loginLimit.succeeded(account.username, from);
          return 1;
        },
      });
    },
  };
}

/** State, authenticator app and recovery codes of an account, changed by their owner. */
import { hasRole, type Role } from '../../domain/access/roles.ts';
import { plainCode } from '../../domain/access/second-factor.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { accountById } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import {
  confirmTotp,
  countRecoveryCodes,
  deleteTotp,
  passkeysOf,
  putUnconfirmedTotp,
  totpOf,
} from '../../store/tables/second-factors.ts';
import { notLoggedIn, type CredentialDeps } from './callers.ts';
import { sessionOf, type FactorChanges } from './factor-changes.ts';
import { factorsOf, totpContext } from './factor-codes.ts';
import { totpSecretFrom, totpStepOf, totpUri } from './totp.ts';
import type { SecondFactors } from './types.ts';
import type { Seal } from '../kernel/ports.ts';

export interface SecondFactorDeps extends CredentialDeps {
  seal: Seal;
  factorChanges: FactorChanges;
  secondFactorRole: Role | null;
  /** Names the installation in an authenticator app. */
  consoleHost: string;
}

const hasNoTotp = (): Refusal =>
  new Refusal('not_now', 'the account has no authenticator app; POST /api/user/secondFactor/totp/create adds one');

export function makeSecondFactors(deps: SecondFactorDeps): SecondFactors {
  const { store, randomBytes, seal, factorChanges, secondFactorRole, consoleHost } = deps;
  const { withProof } = factorChanges;

  return {
    async get({ accountId, roles, mustSetUpFactor = false }) {
      const account = await accountById(store.read, accountId);
      if (!account) throw notLoggedIn();
      return {
        factors: factorsOf(account),
        recoveryCodes: await countRecoveryCodes(store.read, accountId),
        passkeys: (await passkeysOf(store.read, accountId)).map(({ id, name, createdAtMs, lastUsedAtMs }) => ({
          id,
          name,
          createdAtUnixMs: createdAtMs,
          lastUsedAtUnixMs: lastUsedAtMs,
        })),
        isRequired: secondFactorRole !== null && hasRole(roles, secondFactorRole),
        mustSetUp: mustSetUpFactor,
      };
    },

    async createTotp(caller, proof) {
      sessionOf(caller);
      const { accountId, username } = caller;
      const secret = totpSecretFrom(randomBytes);
      await withProof(caller, proof, async ({ tx, account, nowMs }) => {
        if (factorsOf(account).includes('totp')) {
          const message = 'the account has an authenticator app: remove it before you add another';
          throw new Refusal('not_now', message);
        }
        const sealed = seal.seal(secret, totpContext(accountId));
        await putUnconfirmedTotp(tx, { accountId, sealed, createdAtMs: nowMs });
      });
      return { secret, uri: totpUri(secret, { username, host: consoleHost }) };
    },

    confirmTotp: (caller, { code }) =>
      factorChanges.add(caller, async ({ tx, account: { id: accountId }, nowMs }) => {
        const row = await totpOf(tx, accountId);
        if (row === undefined || row.confirmedAtMs !== null) throw hasNoTotp();
        const secret = seal.open(row.sealed, totpContext(accountId));
        const step = secret === null ? null : totpStepOf(plainCode(code), secret, nowMs);
        if (step === null) {
          const message =
            'the code is not one of this secret at this time: send the code that the app shows now, and check the clock of its device';
          throw new Refusal('field_value', message);
        }
        await confirmTotp(tx, accountId, { nowMs, step });
        return { kind: 'totp' };
      }),

    deleteTotp: (caller, proof) =>
      factorChanges.remove(caller, proof, async ({ tx, account }) => {
        if (!factorsOf(account).includes('totp')) throw hasNoTotp();
        await deleteTotp(tx, account.id);
        return { kind: 'totp' };
      }),

    async createRecoveryCodes(caller, proof) {
      sessionOf(caller);
      const recoveryCodes = await withProof(caller, proof, async ({ tx, account, nowMs }) => {
        const { id: accountId } = account;
        if (factorsOf(account).length === 0) {
          const message = 'the account has no second factor, and recovery codes come with one: add it first';
          throw new Refusal('not_now', message);
        }
        const codes = await factorChanges.renewCodes(tx, accountId);
        const event = { kind: 'account.recoveryCodesCreated', data: {} };
        await appendEvent(tx, { accountId, atMs: nowMs, subjectId: accountId, ...event });
        return codes;
      });
      return { recoveryCodes };
    },
  };
}

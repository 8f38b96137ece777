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
import { invalidateAccount } from './account-admin.ts';
import { lockOwnAccount, notLoggedIn, type Callers, type CredentialDeps } from './callers.ts';
import { factorsOf, sessionOf, type FactorChanges } from './factor-changes.ts';
import { totpContext } from './factor-codes.ts';
import type { Grants } from './grants.ts';
import { totpSecretFrom, totpStepOf, totpUri } from './totp.ts';
import type { SecondFactors } from './types.ts';
import type { Seal } from '../kernel/ports.ts';

export interface SecondFactorDeps extends CredentialDeps {
  seal: Seal;
  callers: Callers;
  grants: Pick<Grants, 'invalidate'>;
  factorChanges: FactorChanges;
  secondFactorRole: Role | null;
  /** Names the installation in an authenticator app. */
  consoleHost: string;
}

const hasNoTotp = (): Refusal =>
  new Refusal('not_now', 'the account has no authenticator app; POST /api/user/secondFactor/totp/create adds one');

export function makeSecondFactors(deps: SecondFactorDeps): SecondFactors {
  const { store, time, randomBytes, seal, factorChanges, secondFactorRole, consoleHost } = deps;
  const { freshCodes, storeCodes, withProof, record } = factorChanges;

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

    async confirmTotp(caller, { code }) {
      const sessionId = sessionOf(caller);
      const { accountId } = caller;
      const codes = freshCodes();
      const isFirst = await store.write(async (tx) => {
        const account = await lockOwnAccount(tx, accountId);
        const nowMs = time.now();
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
        const isFirstFactor = factorsOf(account).length === 0;
        if (isFirstFactor) await storeCodes(tx, accountId, codes);
        const event = { kind: 'account.secondFactorAdded', data: { kind: 'totp' } };
        await record({ tx, account, nowMs }, sessionId, event);
        return isFirstFactor;
      });
      invalidateAccount(deps, accountId);
      return { recoveryCodes: isFirst ? codes : [] };
    },

    async deleteTotp(caller, proof) {
      const sessionId = sessionOf(caller);
      await withProof(caller, proof, async (change) => {
        if (!factorsOf(change.account).includes('totp')) throw hasNoTotp();
        await deleteTotp(change.tx, change.account.id);
        await record(change, sessionId, { kind: 'account.secondFactorRemoved', data: { kind: 'totp' } });
      });
      invalidateAccount(deps, caller.accountId);
    },

    async createRecoveryCodes(caller, proof) {
      sessionOf(caller);
      const codes = freshCodes();
      await withProof(caller, proof, async ({ tx, account, nowMs }) => {
        const { id: accountId } = account;
        if (factorsOf(account).length === 0) {
          const message = 'the account has no second factor, and recovery codes come with one: add it first';
          throw new Refusal('not_now', message);
        }
        await storeCodes(tx, accountId, codes);
        const event = { kind: 'account.recoveryCodesCreated', data: {} };
        await appendEvent(tx, { accountId, atMs: nowMs, subjectId: accountId, ...event });
      });
      return { recoveryCodes: codes };
    },
  };
}

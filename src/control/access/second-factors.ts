/**
 * Set-up and removal of second factors by their owner, in a login, with the password, and with a
 * code once there is a factor. Each change ends the other logins of the account; API keys stay.
 */
import { hasRole, type Role } from '../../domain/access/roles.ts';
import {
  RECOVERY_CODE_BYTES,
  RECOVERY_CODES,
  plainCode,
  recoveryCodeFrom,
  type SecondFactor,
} from '../../domain/access/second-factor.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { accountById, type AccountRow } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { parseSecondFactors } from '../../store/tables/json-schemas.ts';
import {
  confirmTotp,
  countRecoveryCodes,
  deleteTotp,
  listSecondFactors,
  putUnconfirmedTotp,
  replaceRecoveryCodes,
  totpOf,
} from '../../store/tables/second-factors.ts';
import { setSecondFactorOfSession } from '../../store/tables/sessions.ts';
import type { Db } from '../../store/store.ts';
import { invalidateAccount, revokeLogins } from './account-admin.ts';
import { lockOwnAccount, notLoggedIn, type Callers, type CredentialDeps } from './callers.ts';
import { totpContext, type FactorCodes } from './factor-codes.ts';
import type { Grants } from './grants.ts';
import type { OwnPassword } from './own-password.ts';
import { sha256Hex, type RandomBytes } from './random.ts';
import type { FactorProof, SecondFactors } from './types.ts';
import { totpSecretFrom, totpStepOf, totpUri } from './totp.ts';
import type { Caller, Seal } from '../kernel/ports.ts';

export interface SecondFactorDeps extends CredentialDeps {
  seal: Seal;
  callers: Callers;
  grants: Pick<Grants, 'invalidate'>;
  ownPassword: OwnPassword;
  factorCodes: Pick<FactorCodes, 'requireForChange'>;
  secondFactorRole: Role | null;
  /** Names the installation in an authenticator app. */
  consoleHost: string;
}

const hasNoTotp = (): Refusal =>
  new Refusal('not_now', 'the account has no authenticator app; POST /api/user/secondFactor/totp/create adds one');

const freshCodes = (randomBytes: RandomBytes): string[] =>
  Array.from({ length: RECOVERY_CODES }, () => recoveryCodeFrom(randomBytes(RECOVERY_CODE_BYTES)));

const storeCodes = (tx: Db, accountId: string, codes: readonly string[]): Promise<void> =>
  replaceRecoveryCodes(
    tx,
    accountId,
    codes.map((code) => sha256Hex(plainCode(code))),
  );

const sessionOf = ({ sessionId }: Caller): string => {
  if (sessionId !== null) return sessionId;
  throw new Refusal('forbidden', 'an API key changes no second factor: log in, as in the settings of the console');
};

const factorsOf = ({ id, secondFactors }: AccountRow): SecondFactor[] => parseSecondFactors(secondFactors, id);

export function makeSecondFactors(deps: SecondFactorDeps): SecondFactors {
  const { store, time, randomBytes, seal, ownPassword, factorCodes, secondFactorRole, consoleHost } = deps;

  interface Change {
    tx: Db;
    account: AccountRow;
    nowMs: number;
  }

  /** A transaction under the account's lock, after the password and, with a factor, a code. */
  const withProof = async <Answer>(
    { accountId }: Caller,
    { password, code }: FactorProof,
    fn: (change: Change) => Promise<Answer>,
  ): Promise<Answer> => {
    const known = await accountById(store.read, accountId);
    if (!known) throw notLoggedIn();
    const message =
      'The password is wrong, so nothing was changed. Send the password that you log in with; an account of a login provider has its second factor there.';
    await ownPassword.require(known, password, message);
    return store.write(async (tx) => {
      const account = await lockOwnAccount(tx, accountId);
      if (account.passwordHash !== known.passwordHash) throw notLoggedIn();
      if (factorsOf(account).length > 0) await factorCodes.requireForChange(tx, account, code);
      return fn({ tx, account, nowMs: time.now() });
    });
  };

  const recordChange = async (
    { tx, account: { id: accountId }, nowMs }: Change,
    sessionId: string,
    event: { kind: string; data: object },
  ): Promise<void> => {
    const factors = await listSecondFactors(tx, accountId);
    await setSecondFactorOfSession(tx, sessionId, factors.length > 0 ? 1 : 0);
    await revokeLogins(tx, accountId, nowMs, sessionId);
    await appendEvent(tx, { accountId, atMs: nowMs, subjectId: accountId, ...event });
  };

  return {
    async get({ accountId, roles, mustSetUpFactor = false }) {
      const account = await accountById(store.read, accountId);
      if (!account) throw notLoggedIn();
      return {
        factors: factorsOf(account),
        recoveryCodes: await countRecoveryCodes(store.read, accountId),
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
      const codes = freshCodes(randomBytes);
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
        await recordChange({ tx, account, nowMs }, sessionId, event);
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
        await recordChange(change, sessionId, { kind: 'account.secondFactorRemoved', data: { kind: 'totp' } });
      });
      invalidateAccount(deps, caller.accountId);
    },

    async createRecoveryCodes(caller, proof) {
      sessionOf(caller);
      const codes = freshCodes(randomBytes);
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

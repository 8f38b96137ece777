/**
 * Common part of each change of second factors by their owner: in a login, with the password, and
 * with a code once there is a factor. It ends the other logins of the account; API keys stay.
 */
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
import { listSecondFactors, replaceRecoveryCodes } from '../../store/tables/second-factors.ts';
import { setSecondFactorOfSession } from '../../store/tables/sessions.ts';
import type { Db } from '../../store/store.ts';
import { revokeLogins } from './account-admin.ts';
import { lockOwnAccount, notLoggedIn, type CredentialDeps } from './callers.ts';
import type { FactorCodes } from './factor-codes.ts';
import type { OwnPassword } from './own-password.ts';
import { sha256Hex } from './random.ts';
import type { FactorProof } from './types.ts';
import type { Caller } from '../kernel/ports.ts';

export interface FactorChange {
  tx: Db;
  account: AccountRow;
  nowMs: number;
}

export interface FactorChanges {
  freshCodes(): string[];
  storeCodes(tx: Db, accountId: string, codes: readonly string[]): Promise<void>;
  withProof<Answer>(caller: Caller, proof: FactorProof, fn: (change: FactorChange) => Promise<Answer>): Promise<Answer>;
  /** After rows of factors changed. */
  record(change: FactorChange, sessionId: string, event: { kind: string; data: object }): Promise<void>;
}

export const sessionOf = ({ sessionId }: Caller): string => {
  if (sessionId !== null) return sessionId;
  throw new Refusal('forbidden', 'an API key changes no second factor: log in, as in the settings of the console');
};

export const factorsOf = ({ id, secondFactors }: AccountRow): SecondFactor[] => parseSecondFactors(secondFactors, id);

export function makeFactorChanges(
  deps: CredentialDeps & { ownPassword: OwnPassword; factorCodes: Pick<FactorCodes, 'requireForChange'> },
): FactorChanges {
  const { store, time, randomBytes, ownPassword, factorCodes } = deps;
  return {
    freshCodes: () => Array.from({ length: RECOVERY_CODES }, () => recoveryCodeFrom(randomBytes(RECOVERY_CODE_BYTES))),

    storeCodes: (tx, accountId, codes) =>
      replaceRecoveryCodes(
        tx,
        accountId,
        codes.map((code) => sha256Hex(plainCode(code))),
      ),

    async withProof({ accountId }, { password, code }, fn) {
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
    },

    async record({ tx, account: { id: accountId }, nowMs }, sessionId, event) {
      const factors = await listSecondFactors(tx, accountId);
      await setSecondFactorOfSession(tx, sessionId, factors.length > 0 ? 1 : 0);
      await revokeLogins(tx, accountId, nowMs, sessionId);
      await appendEvent(tx, { accountId, atMs: nowMs, subjectId: accountId, ...event });
    },
  };
}

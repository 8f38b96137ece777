/**
 * Common part of each change of second factors by their owner: in a login, with the password, and
 * with a code once there is a factor. It ends the other logins of the account; API keys stay.
 */
import { RECOVERY_CODE_BYTES, RECOVERY_CODES, plainCode, recoveryCodeFrom } from '../../domain/access/second-factor.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { accountById, type AccountRow } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { replaceRecoveryCodes, writeSecondFactors } from '../../store/tables/second-factors.ts';
import { setSecondFactorOfSession } from '../../store/tables/sessions.ts';
import type { Db } from '../../store/store.ts';
import { invalidateAccount, revokeLogins } from './account-admin.ts';
import { lockOwnAccount, notLoggedIn, type Callers, type CredentialDeps } from './callers.ts';
import { factorsOf, type FactorCodes } from './factor-codes.ts';
import type { Grants } from './grants.ts';
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
  /** Replaces the codes of the account, and returns the new ones. */
  renewCodes(tx: Db, accountId: string): Promise<string[]>;
  withProof<Answer>(caller: Caller, proof: FactorProof, fn: (change: FactorChange) => Promise<Answer>): Promise<Answer>;
  /** `insert` writes the factor, and returns what the event says of it. The first brings codes. */
  add(caller: Caller, insert: (change: FactorChange) => Promise<object>): Promise<{ recoveryCodes: string[] }>;
  /** `remove` deletes the factor, and returns what the event says of it. */
  remove(caller: Caller, proof: FactorProof, remove: (change: FactorChange) => Promise<object>): Promise<void>;
}

export const sessionOf = ({ sessionId }: Caller): string => {
  if (sessionId !== null) return sessionId;
  throw new Refusal('forbidden', 'an API key changes no second factor: log in, as in the settings of the console');
};

export interface FactorChangeDeps extends CredentialDeps {
  callers: Callers;
  grants: Pick<Grants, 'invalidate'>;
  ownPassword: OwnPassword;
  factorCodes: Pick<FactorCodes, 'requireForChange'>;
}

export function makeFactorChanges(deps: FactorChangeDeps): FactorChanges {
  const { store, time, randomBytes, ownPassword, factorCodes } = deps;

  const renewCodes = async (tx: Db, accountId: string): Promise<string[]> => {
    const codes = Array.from({ length: RECOVERY_CODES }, () => recoveryCodeFrom(randomBytes(RECOVERY_CODE_BYTES)));
    const hashes = codes.map((code) => sha256Hex(plainCode(code)));
    await replaceRecoveryCodes(tx, accountId, hashes);
    return codes;
  };

  const withProof: FactorChanges['withProof'] = async ({ accountId }, { password, code }, fn) => {
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

  const record = async (
    { tx, account: { id: accountId }, nowMs }: FactorChange,
    sessionId: string,
    event: { kind: string; data: object },
  ): Promise<void> => {
    const factors = await writeSecondFactors(tx, accountId);
    await setSecondFactorOfSession(tx, sessionId, factors.length > 0 ? 1 : 0);
    await revokeLogins(tx, accountId, nowMs, sessionId);
    await appendEvent(tx, { accountId, atMs: nowMs, subjectId: accountId, ...event });
  };

  return {
    renewCodes,
    withProof,

    async add(caller, insert) {
      const sessionId = sessionOf(caller);
      const { accountId } = caller;
      const recoveryCodes = await store.write(async (tx) => {
        const change = { tx, account: await lockOwnAccount(tx, accountId), nowMs: time.now() };
        const data = await insert(change);
        const codes = factorsOf(change.account).length === 0 ? await renewCodes(tx, accountId) : [];
        await record(change, sessionId, { kind: 'account.secondFactorAdded', data });
        return codes;
      });
      invalidateAccount(deps, accountId);
      return { recoveryCodes };
    },

    async remove(caller, proof, remove) {
      const sessionId = sessionOf(caller);
      await withProof(caller, proof, async (change) => {
        const data = await remove(change);
        await record(change, sessionId, { kind: 'account.secondFactorRemoved', data });
      });
      invalidateAccount(deps, caller.accountId);
    },
  };
}

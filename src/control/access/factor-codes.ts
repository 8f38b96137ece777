/** Checks codes of second factors. A code is used up in the transaction of what it allows. */
import { isRecoveryCode, plainCode, type SecondFactor } from '../../domain/access/second-factor.ts';
import { Refusal, type SecondFactorHint } from '../../domain/kernel/refusal.ts';
import type { AccountRow } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { parseSecondFactors } from '../../store/tables/json-schemas.ts';
import { countRecoveryCodes, totpOf, useRecoveryCode, useTotpStep } from '../../store/tables/second-factors.ts';
import type { Flag } from '../../store/db/columns.ts';
import type { Db } from '../../store/store.ts';
import type { LoginRateLimit } from './login-rate-limit.ts';
import { sha256Hex } from './random.ts';
import { totpStepOf } from './totp.ts';
import type { Log, Seal, Time } from '../kernel/ports.ts';

interface Given {
  code: string | undefined;
  from: string | null;
}

export interface FactorCodes {
  /** Answers 1 after a code, 0 for an account without a second factor. The account is locked. */
  confirmLogin(tx: Db, account: AccountRow, given: Given): Promise<Flag>;
  requireForChange(tx: Db, account: AccountRow, code: string | undefined): Promise<void>;
}

export const factorsOf = ({ id, secondFactors }: AccountRow): SecondFactor[] => parseSecondFactors(secondFactors, id);

export const totpContext = (accountId: string): string => `totp of ${accountId}`;

/** The words of a wrong password: only who sent the right one also gets the hint. */
const codeNeeded = (): Refusal => {
  const secondFactor: SecondFactorHint = 'code';
  return new Refusal('not_logged_in', WRONG_CREDENTIALS, { secondFactor });
};

export const WRONG_CREDENTIALS = 'The username (or email) or the password is wrong. Check both and log in again.';

export function makeFactorCodes(deps: {
  time: Pick<Time, 'now'>;
  seal: Pick<Seal, 'open'>;
  loginLimit: Pick<LoginRateLimit, 'tryCode'>;
  log: Pick<Log, 'warn'>;
}): FactorCodes {
  const { time, seal, loginLimit, log } = deps;

  const useUp = async (tx: Db, { id }: AccountRow, code: string): Promise<boolean> => {
    const plain = plainCode(code);
    const atMs = time.now();
    if (isRecoveryCode(plain)) {
      if (!(await useRecoveryCode(tx, id, sha256Hex(plain)))) return false;
      const data = { left: await countRecoveryCodes(tx, id) };
      await appendEvent(tx, { accountId: id, atMs, kind: 'account.recoveryCodeUsed', subjectId: id, data });
      return true;
    }
    const row = await totpOf(tx, id);
    const secret = typeof row?.confirmedAtMs === 'number' ? seal.open(row.sealed, totpContext(id)) : null;
    const step = secret === null ? null : totpStepOf(plain, secret, atMs);
    return step !== null && useTotpStep(tx, id, step);
  };

  const isRight = async (tx: Db, account: AccountRow, { code, from }: Given): Promise<boolean> => {
    if (code === undefined || code === '') return false;
    const forgive = loginLimit.tryCode(account.username, from);
    if (await useUp(tx, account, code)) {
      forgive();
      return true;
    }
    log.warn({ accountId: account.id, from }, 'a wrong code of the second factor was refused');
    return false;
  };

  return {
    async confirmLogin(tx, account, given) {
      if (factorsOf(account).length === 0) return 0;
      if (await isRight(tx, account, given)) return 1;
      throw codeNeeded();
    },

    async requireForChange(tx, account, code) {
      if (await isRight(tx, account, { code, from: null })) return;
      const message =
        'This change needs a code that was not used before: send the current code of the authenticator app, or a recovery code, as "code".';
      throw new Refusal('forbidden', message);
    },
  };
}

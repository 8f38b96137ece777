/** Checks the password of a caller who changes what a login needs. */
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { AccountRow } from '../../store/tables/accounts.ts';
import { makeLoginRateLimit } from './login-rate-limit.ts';
import type { Passwords } from './passwords.ts';
import type { Log, Time } from '../kernel/ports.ts';

export interface OwnPassword {
  /** Throws `forbidden` with the message, or `too_many_requests`. */
  require(account: AccountRow, password: string, message: string): Promise<void>;
}

export function makeOwnPassword(deps: {
  passwords: Pick<Passwords, 'verify'>;
  time: Pick<Time, 'elapsed'>;
  log: Pick<Log, 'warn'>;
}): OwnPassword {
  /** Separate from logins: failed logins of others must not block a change. */
  const limit = makeLoginRateLimit(deps.time);
  return {
    async require({ id, username, passwordHash }, password, message) {
      const attempt = {
        source: { account: username, address: null },
        mayStart: () => limit.check(id, null),
        failed: () => limit.failed(id, null),
      };
      attempt.mayStart();
      if (await deps.passwords.verify(password, passwordHash, attempt)) return;
      deps.log.warn({ accountId: id }, 'a change was refused: wrong password');
      throw new Refusal('forbidden', message);
    },
  };
}

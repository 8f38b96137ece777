/** Open registration, without email: nothing would verify an address, a refusal would reveal it. */
import { Refusal } from '../../domain/kernel/refusal.ts';
import { USER_ROLE } from '../../domain/access/roles.ts';
import type { Accounts } from './accounts.ts';
import { addressBucket } from './address-bucket.ts';
import type { CredentialDeps } from './callers.ts';
import { makeBuckets, type Limit } from './login-rate-limit.ts';
import { refuseWeakPassword } from './new-password.ts';
import type { Passwords } from './passwords.ts';
import { uuidFrom } from './random.ts';

export interface Registration {
  /** `from`: the client's address. */
  register(
    body: { username: string; password: string },
    from: string,
  ): Promise<{ userId: string; username: string; email: string; group: string[] }>;
  registers(): boolean;
}

export interface RegistrationDeps extends CredentialDeps {
  passwords: Passwords;
  newAccount: Accounts['insert'];
  registration: { isOpen: boolean; credit: number };
}

/** A class behind one address registers at once. */
const perAddress: Limit = { burst: 30, forgiveMs: 60_000 };

export const makeRegistration = (deps: RegistrationDeps): Registration => {
  const { store, time, randomBytes, passwords, newAccount, registration } = deps;
  const attempts = makeBuckets(perAddress, time.elapsed);
  const { isOpen, credit: balance } = registration;
  return {
    registers: () => isOpen,

    async register({ username, password }, from) {
      if (!isOpen)
        throw new Refusal('forbidden', 'registration is off on this installation: ask an administrator for an account');
      const address = addressBucket(from);
      const waitMs = attempts.waitMs(address);
      if (waitMs > 0) {
        const retryAfterS = Math.ceil(waitMs / 1000);
        const message = `too many registrations from your address: ${perAddress.burst} at once, then one a minute; wait ${retryAfterS} seconds and try again`;
        throw new Refusal('too_many_requests', message, { retryAfterS });
      }
      attempts.fill(address);
      await refuseWeakPassword('password', password, { username, email: '' });
      const passwordHash = await passwords.hash(password, { account: username, address: from });
      const id = uuidFrom(randomBytes);
      const roles = [USER_ROLE];
      await store.write((tx) => newAccount(tx, { id, username, email: '', balance, roles, passwordHash }));
      return { userId: id, username, email: '', group: roles };
    },
  };
};

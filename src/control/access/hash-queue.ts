/**
 * Queues password hashes by address, then all addresses together. Both queues serve accounts
 * round-robin, one hash per account at a time. An address enters the second queue with no more
 * requests than run at once.
 */
import { makeKeyedLimit } from '../../async/limits.ts';
import { makeSemaphore, type Semaphore } from '../../async/semaphore.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { addressBucket } from './address-bucket.ts';

const MAX_PER_ACCOUNT = 256;
const MAX_PER_ADDRESS = 1_024;
const RETRY_AFTER_S = 5;

export interface HashSource {
  /** Any name: an unknown account queues as a known one. */
  account: string;
  /** Address of a login; null for authenticated requests, which queue by their account. */
  address: string | null;
}

export interface HashQueue {
  /** Throws `too_many_requests` when the source's queue is full. */
  run<T>(source: HashSource, hash: () => Promise<T>): Promise<T>;
}

export function makeHashQueue({ atOnce }: { atOnce: number }): HashQueue {
  const onePerAccount = { perOwner: 1 };
  const all = makeSemaphore(atOnce, onePerAccount);
  const byAddress = new Map<string, Semaphore>();
  const accountLimit = makeKeyedLimit({ total: Infinity, perKey: MAX_PER_ACCOUNT });
  const addressLimit = makeKeyedLimit({ total: Infinity, perKey: MAX_PER_ADDRESS });

  const enter = (account: string, from: string): (() => void) => {
    const leaveAccount = accountLimit.tryAcquire(`${account}\n${from}`);
    if (leaveAccount === null) throw tooMany(`${MAX_PER_ACCOUNT} for this account`);
    const leaveAddress = addressLimit.tryAcquire(from);
    if (leaveAddress === null) {
      leaveAccount();
      throw tooMany(`${MAX_PER_ADDRESS} from this address`);
    }
    return () => {
      leaveAccount();
      leaveAddress();
      if (addressLimit.countOf(from) === 0) byAddress.delete(from);
    };
  };

  return {
    async run({ account, address }, hash) {
      const from = address === null ? `account\n${account}` : addressBucket(address);
      const leave = enter(account, from);
      try {
        const ofAddress = byAddress.get(from) ?? makeSemaphore(atOnce, onePerAccount);
        byAddress.set(from, ofAddress);
        return await ofAddress.run(() => all.run(hash, { owner: account }), { owner: account });
      } finally {
        leave();
      }
    },
  };
}

const tooMany = (where: string): Refusal => {
  const message = `Too many passwords wait to be checked: ${where}. Try again in ${RETRY_AFTER_S} seconds.`;
  return new Refusal('too_many_requests', message, { retryAfterS: RETRY_AFTER_S });
};

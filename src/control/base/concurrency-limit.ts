/** How many of something may be under way at once: of one account, and of all together. */
import { Refusal } from '../../domain/refusal.ts';

export interface Seats {
  /** Answers what leaves the place again, once. Throws `too_many_requests` when none is free. */
  enter(accountId: string): () => void;
  /** How many are taken. */
  readonly taken: number;
}

export interface SeatRules {
  ofAccount: number;
  ofAll: number;
  retryAfterS: number;
  /** What is said to who finds none. */
  full: { mine(count: number): string; all(count: number): string };
}

export function makeSeats({ ofAccount, ofAll, retryAfterS, full }: SeatRules): Seats {
  const byAccount = new Map<string, number>();
  let taken = 0;
  return {
    enter(accountId) {
      const mine = byAccount.get(accountId) ?? 0;
      const why = mine >= ofAccount ? full.mine(mine) : taken >= ofAll ? full.all(taken) : null;
      if (why !== null) throw new Refusal('too_many_requests', why, { retryAfterS });
      byAccount.set(accountId, mine + 1);
      taken += 1;
      let hasLeft = false;
      return () => {
        if (hasLeft) return;
        hasLeft = true;
        taken -= 1;
        const left = (byAccount.get(accountId) ?? 1) - 1;
        if (left === 0) byAccount.delete(accountId);
        else byAccount.set(accountId, left);
      };
    },
    get taken() {
      return taken;
    },
  };
}

/** How many of something an account may have at once, and all accounts together. */
import { Refusal } from '../domain/refusal.ts';

export interface AtOnce {
  /** Answers what gives the place back, once. Throws `too_many_requests`. */
  enter(accountId: string): () => void;
}

/** `what`: as in "16 of your commands run". */
export function makeAtOnce(limits: { each: number; all: number }, what: string): AtOnce {
  const held = new Map<string, number>();
  let all = 0;
  return {
    enter(accountId) {
      const mine = held.get(accountId) ?? 0;
      if (mine >= limits.each)
        throw new Refusal(
          'too_many_requests',
          `${mine} of your ${what}, and that is the most; wait for one of them to end`,
          {
            retryAfterS: 2,
          },
        );
      if (all >= limits.all)
        throw new Refusal('too_many_requests', `${all} ${what} on this server, and that is the most; try again later`, {
          retryAfterS: 5,
        });
      held.set(accountId, mine + 1);
      all += 1;
      let left = false;
      return () => {
        if (left) return;
        left = true;
        all -= 1;
        const now = (held.get(accountId) ?? 1) - 1;
        if (now === 0) held.delete(accountId);
        else held.set(accountId, now);
      };
    },
  };
}

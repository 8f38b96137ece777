/** Rechecks the logins of open streams, sockets and transfers after a reported revocation. */
import { makeRechecker } from '../../async/coalesce.ts';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Caller, Control } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { atTime } from '../at-time.ts';
import { presentedCredential } from './credentials.ts';

export interface LoginHolder {
  request: Pick<FastifyRequest, 'headers'>;
  caller: Pick<Caller, 'accountId' | 'limits'>;
}

export interface LoginWatch {
  /** Returns why the login ended, or null. `revalidate` skips caches. */
  whyEnded(holder: LoginHolder, options?: { revalidate: boolean }): Promise<string | null>;
  /** Calls `cut` once when the login ends. Returns the unwatch function. */
  watch(holder: LoginHolder, cut: (why: string) => void): () => void;
}

const ENDED = 'the login or key has ended: log in again';

interface Watched {
  holder: LoginHolder;
  cut: (why: string) => void;
}

export function makeLoginWatch(app: FastifyInstance, { access, forwarding }: Control): LoginWatch {
  const byAccount = new Map<string, Set<Watched>>();
  const whyEnded: LoginWatch['whyEnded'] = async ({ request, caller }, options = { revalidate: false }) => {
    try {
      const { credential } = presentedCredential(request.headers);
      const { accountId } = await access.authenticate(credential, options);
      return accountId === caller.accountId ? null : 'the login now belongs to another account';
    } catch (error) {
      if (error instanceof Refusal && (error.code === 'not_logged_in' || error.secondFactor)) return ENDED;
      throw error;
    }
  };

  const recheck = makeRechecker<string>(async (accountIds) => {
    const affected = [...accountIds].flatMap((accountId) => [...(byAccount.get(accountId) ?? [])]);
    // Tabs share a login: each login is checked once.
    const verdicts = new Map<string, string | null>();
    for (const { holder, cut } of affected) {
      const key = JSON.stringify(presentedCredential(holder.request.headers).credential);
      const cached = verdicts.get(key);
      // A failed check ends no login.
      const why = cached === undefined ? await whyEnded(holder, { revalidate: true }).catch(() => null) : cached;
      verdicts.set(key, why);
      if (why !== null) cut(why);
    }
  });

  const unfollow = forwarding.onRevoked((end) => {
    if ('accountId' in end && byAccount.has(end.accountId)) recheck(end.accountId);
  });
  app.addHook('onClose', async () => unfollow());

  return {
    whyEnded,
    watch(holder, cut) {
      const { accountId, limits } = holder.caller;
      const mine = byAccount.get(accountId) ?? new Set();
      byAccount.set(accountId, mine);
      const leave = (): void => {
        endTimer?.();
        mine.delete(watched);
        if (mine.size === 0 && byAccount.get(accountId) === mine) byAccount.delete(accountId);
      };
      const watched: Watched = {
        holder,
        cut(why) {
          if (!mine.has(watched)) return;
          leave();
          cut(why);
        },
      };
      mine.add(watched);
      const endTimer = limits?.expiresAtMs ? atTime(limits.expiresAtMs, () => watched.cut(ENDED)) : undefined;
      return leave;
    },
  };
}

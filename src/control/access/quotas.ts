/** Limits of accounts and of the installation, and what accounts use (`domain/access/quota.ts`). */
import { makeBoundedMap } from '../../async/bounded-map.ts';
import {
  inUnits,
  isQuotaKind,
  isQuotaName,
  limitOf,
  quotaKinds,
  refuseAbove,
  type QuotaKind,
  type QuotaName,
  type Usage,
} from '../../domain/access/quota.ts';
import { accountNotFound } from '../../domain/kernel/refusal.ts';
import { accountById, lockAccount } from '../../store/tables/accounts.ts';
import { countQueued } from '../../store/tables/capacity.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { countOwnImages } from '../../store/tables/images.ts';
import { keyRowsOf } from '../../store/tables/keys.ts';
import { countShares } from '../../store/tables/ports.ts';
import { INSTALLATION, parseUsage, quotasOf, writeQuota } from '../../store/tables/quotas.ts';
import type { Db } from '../../store/store.ts';
import { type Mutation, idempotentWrite, type WriteDeps, notifyAdministrators } from '../kernel/ports.ts';

export interface ListedQuota {
  name: QuotaName;
  /** Null: no limit of its own. */
  limit: number | null;
  from: 'account' | 'installation' | 'built-in';
  /** Null for the installation, and for what is not counted in rows. */
  used: number | null;
}

export interface AccountQuotas {
  /** Null: the installation's limits. */
  accountId: string | null;
  quotas: ListedQuota[];
}

export interface QuotaChange {
  accountId?: string | undefined;
  /** By name; null removes the limit. */
  limits: Readonly<Record<string, number | null>>;
}

export interface Quotas {
  get(accountId: string | null): Promise<AccountQuotas>;
  set: Mutation<QuotaChange, AccountQuotas>;
  /** Answers at once: that of the operator's setting until the account's own is read. */
  requestsPerSecond(accountId: string): number;
}

/** Throws `over_quota` when `asked` more than `used` is too much. Call under the account's lock. */
export const requireQuota = async (
  db: Db,
  accountId: string,
  name: QuotaName,
  used: number,
  asked = 1,
): Promise<void> => refuseAbove(name, { used, asked }, await quotasOf(db, accountId));

export const quotaLimit = async (db: Db, accountId: string, name: QuotaKind): Promise<number> =>
  limitOf(await quotasOf(db, accountId), name) ?? quotaKinds[name].builtIn;

/** Bounds the memory; an account beyond has the rate of the setting for one read. */
const MAX_CACHED_RATES = 20_000;

export interface QuotaDeps extends WriteDeps {
  /** Default of accounts and installations without a value. */
  requestsPerSecond?: number;
}

export function makeQuotas(deps: QuotaDeps): Quotas {
  const { store, requestsPerSecond: defaultRate = quotaKinds.requestsPerSecond.builtIn } = deps;
  const rates = makeBoundedMap<number>({ maxEntries: MAX_CACHED_RATES });
  let changes = 0;

  async function readRate(accountId: string): Promise<void> {
    const before = changes;
    const { account, installation } = await quotasOf(store.read, accountId);
    const rate = account.get('requestsPerSecond') ?? installation.get('requestsPerSecond') ?? defaultRate;
    if (before === changes) rates.set(accountId, rate);
    else rates.delete(accountId);
  }

  const listed = async (db: Db, accountId: string | null): Promise<AccountQuotas> => {
    const { quotas } = await readQuotas(db, accountId, deps.time.now());
    const withRate = quotas.map((quota) =>
      quota.name === 'requestsPerSecond' && quota.from === 'built-in' ? { ...quota, limit: defaultRate } : quota,
    );
    return { accountId, quotas: withRate };
  };

  return {
    get: (accountId) => listed(store.read, accountId),

    async set({ accountId: caller }, { accountId, limits }, idempotency) {
      const answer = await idempotentWrite(deps, caller, idempotency, async (tx, nowMs) => {
        const changes = Object.entries(limits).flatMap(([name, limit]) => (isQuotaName(name) ? [{ name, limit }] : []));
        if (accountId !== undefined && !(await lockAccount(tx, accountId))) throw accountNotFound(accountId);
        for (const { name, limit } of changes) await writeQuota(tx, accountId ?? INSTALLATION, name, limit);
        const event = { atMs: nowMs, kind: 'quota.set', subjectId: accountId ?? 'installation', data: { limits } };
        if (accountId === undefined) await notifyAdministrators(tx, event);
        else await appendEvent(tx, { ...event, accountId });
        return listed(tx, accountId ?? null);
      });
      changes += 1;
      for (const [cached] of rates.entries()) rates.delete(cached);
      return answer;
    },

    requestsPerSecond(accountId) {
      const rate = rates.peek(accountId);
      if (rate !== undefined) return rate;
      rates.set(accountId, defaultRate);
      readRate(accountId).catch(() => rates.delete(accountId));
      return defaultRate;
    },
  };
}

async function readQuotas(db: Db, accountId: string | null, nowMs: number): Promise<AccountQuotas> {
  const set = await quotasOf(db, accountId ?? INSTALLATION);
  const used = accountId === null ? null : await usedBy(db, accountId, nowMs);
  const counted = Object.keys(used ?? {}).filter(isQuotaName);
  const given = [...set.account.keys(), ...set.installation.keys()].filter(isQuotaName);
  const names = new Set([...Object.keys(quotaKinds).filter(isQuotaKind), ...[...counted, ...given].toSorted()]);
  return {
    accountId,
    quotas: [...names].map((name) => ({
      name,
      limit: limitOf(set, name),
      from: set.account.has(name) ? 'account' : set.installation.has(name) ? 'installation' : 'built-in',
      used: used === null || notCounted.has(name) ? null : inUnits(name, used[name] ?? 0),
    })),
  };
}

const notCounted: ReadonlySet<QuotaName> = new Set<QuotaName>(['terminals', 'eventStreams', 'requestsPerSecond']);

async function usedBy(db: Db, accountId: string, nowMs: number): Promise<Usage> {
  const account = await accountById(db, accountId);
  if (!account) throw accountNotFound(accountId);
  const [apiKeys, sshKeys, registries] = [
    await keyRowsOf(db, 'apiKey', accountId),
    await keyRowsOf(db, 'sshKey', accountId),
    await keyRowsOf(db, 'registryCredential', accountId),
  ];
  return {
    ...parseUsage(account.usage, accountId),
    images: await countOwnImages(db, accountId),
    apiKeys: apiKeys.length,
    sshKeys: sshKeys.length,
    registries: registries.length,
    shares: await countShares(db, accountId, nowMs),
    queuedInstances: await countQueued(db, accountId),
  };
}

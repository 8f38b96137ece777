/**
 * Rates of requests per account and per client address: token buckets of ten seconds' requests.
 * Rows are paid once they are read: they may take more than is left, and later requests wait.
 * Answers carry `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers).
 */
import type { FastifyReply } from 'fastify';
import { isAudited, type Route } from '../../contract/route.ts';
import { addressBucket } from '../../control/index.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';

const BURST_S = 10;
/** A bucket owes one filling at most. */
const MAX_DEBT_S = 10;
/** Bounds the memory: two generations of this many. A bucket unused for one is full again. */
const MAX_BUCKETS = 50_000;

export const DEFAULT_ADDRESS_RATE = 2_000;

export interface RateLimitDeps {
  perAddress: number;
  perAccount: (accountId: string) => number;
  /** A proxy speaks for many clients. */
  isProxy: (address: string) => boolean;
  /** Milliseconds that never go back. */
  now?: (() => number) | undefined;
}

export interface RequestRates {
  /** Sets the headers. Throws `too_many_requests`. A client that has gone has no address. */
  takeOfAddress(address: string | undefined, reply: Pick<FastifyReply, 'header'>, cost?: number): void;
  /** `ends`: takes up to a second bucket beyond all that may be owed. */
  takeOfAccount(accountId: string, cost: number, reply: Pick<FastifyReply, 'header'>, ends?: boolean): void;
  /** Never throws. */
  chargeAccount(accountId: string, cost: number, reply: Pick<FastifyReply, 'header'>): void;
  readonly size: number;
}

export const costOf = (route: Pick<Route, 'path' | 'reads' | 'who'> & { operation?: boolean }): number => {
  if (!isAudited(route)) return 1;
  return !route.reads && (route.operation === true || route.path.endsWith('/create')) ? 5 : 2;
};

const KIB = 1024;
/** Requests that a body counts as, besides its own. */
export const costOfBody = (bytes: number): number => Math.floor(bytes / KIB);

const FILE_BYTES_OF_REQUEST = 64 * KIB;
/** Requests that a page or file that anybody reads counts as, besides its own. */
export const costOfFile = (bytes: number): number => Math.floor(bytes / FILE_BYTES_OF_REQUEST);

/** Rows that the request itself pays for: a page of a hundred, with the rows that it names. */
const FREE_ROWS = 300;
const ROWS_OF_REQUEST = 25;
export const costOfRows = (rows: number): number => Math.floor(Math.max(0, rows - FREE_ROWS) / ROWS_OF_REQUEST);

const makeBuckets = (policy: string, now: () => number, adviceOf: (perSecond: number) => string) => {
  /** When each bucket will be full again. Taking from a bucket moves it to the new generation. */
  let fresh = new Map<string, number>();
  let old = new Map<string, number>();
  const policies = new Map<number, string>();
  const policyText = (perSecond: number): string => {
    let text = policies.get(perSecond);
    if (text === undefined) {
      text = `"${policy}";q=${perSecond * BURST_S};w=${BURST_S}`;
      if (policies.size < MAX_BUCKETS) policies.set(perSecond, text);
    }
    return text;
  };
  /** Milliseconds until the bucket is full. */
  const lackOf = (key: string): number => Math.max(0, (fresh.get(key) ?? old.get(key) ?? 0) - now());
  const write = (key: string, lackMs: number): void => {
    if (fresh.size >= MAX_BUCKETS) [old, fresh] = [fresh, new Map()];
    fresh.set(key, now() + lackMs);
  };
  const show = (lackMs: number, perSecond: number, reply: Pick<FastifyReply, 'header'>): void => {
    const remaining = Math.max(0, Math.floor(((BURST_S * 1_000 - lackMs) * perSecond) / 1_000));
    reply.header('ratelimit-policy', policyText(perSecond));
    reply.header('ratelimit', `"${policy}";r=${remaining};t=${Math.ceil(lackMs / 1_000)}`);
  };
  return {
    charge(key: string, perSecond: number, cost: number, reply: Pick<FastifyReply, 'header'>): void {
      const beforeMs = lackOf(key);
      const boundMs = Math.max(beforeMs, (BURST_S + MAX_DEBT_S) * 1_000);
      const afterMs = Math.min(boundMs, beforeMs + (cost * 1_000) / perSecond);
      write(key, afterMs);
      show(afterMs, perSecond, reply);
    },
    take(key: string, perSecond: number, cost: number, reply: Pick<FastifyReply, 'header'>, ends = false): void {
      const boundMs = (ends ? BURST_S + MAX_DEBT_S + BURST_S : BURST_S) * 1_000;
      const beforeMs = lackOf(key);
      const afterMs = beforeMs + (cost * 1_000) / perSecond;
      // A cost above the whole bucket passes when the bucket is full.
      const isGranted = afterMs <= boundMs || beforeMs === 0;
      if (isGranted) write(key, afterMs);
      show(isGranted ? afterMs : beforeMs, perSecond, reply);
      if (isGranted) return;
      const retryAfterS = Math.max(1, Math.ceil((afterMs - boundMs) / 1_000));
      throw new Refusal(
        'too_many_requests',
        `${adviceOf(perSecond)}; wait ${retryAfterS} s, and send requests more slowly`,
        {
          retryAfterS,
        },
      );
    },
    get size() {
      return fresh.size + old.size;
    },
  };
};

export function makeRequestRates({
  perAddress,
  perAccount,
  isProxy,
  now = () => performance.now(),
}: RateLimitDeps): RequestRates {
  const addresses = makeBuckets('address', now, (perSecond) => `requests of this address exceed ${perSecond} a second`);
  const accounts = makeBuckets(
    'account',
    now,
    (perSecond) =>
      `requests of this account exceed ${perSecond} a second, its quota "requestsPerSecond", of which a change or a read of an administrator takes 2, a create or an action 5, and each KiB of a body or ${ROWS_OF_REQUEST} rows that it reads beyond ${FREE_ROWS} 1 more`,
  );
  const rateOf = (accountId: string): number => Math.max(1, perAccount(accountId));
  return {
    takeOfAddress(address, reply, cost = 1) {
      if (address !== undefined && !isProxy(address)) addresses.take(addressBucket(address), perAddress, cost, reply);
    },
    takeOfAccount(accountId, cost, reply, ends) {
      accounts.take(accountId, rateOf(accountId), cost, reply, ends);
    },
    chargeAccount(accountId, cost, reply) {
      accounts.charge(accountId, rateOf(accountId), cost, reply);
    },
    get size() {
      return addresses.size + accounts.size;
    },
  };
}

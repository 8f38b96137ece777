/**
 * The gateway process's side of the link. Routes come from the table that the API streams; access
 * is asked from the API and cached for a second. While the API is away, table and cached answers
 * stay valid, and questions that were never asked fail with `unavailable`.
 */
import { retry } from '../../async/retry.ts';
import { makeCache, type Cache } from '../../async/cache.ts';
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import {
  type Forwarding,
  type GatewayRoute,
  type NotebookBar,
  type RouteUpdate,
  type IdentifyCredential,
  makeRevocations,
  type RegionToOpen,
  type Log,
  type Wake,
} from '../../control/index.ts';
import type { KeyLimits } from '../../domain/access/api-key.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { LinkAddress } from './link-address.ts';
import { makeLinkClient, type Ask } from './link-client.ts';
import {
  barAnswer,
  callerAnswer,
  readLine,
  redeemAnswer,
  type routeMessage,
  sessionAnswer,
  shareAnswer,
  sshAnswer,
  wakeAnswer,
  SILENT_MS,
} from './wire.ts';
import { makeReporter } from './reporter.ts';
import { makeSshLoginQueue } from './ssh-login-queue.ts';

const RETRY_MS = 250;
const ANSWER_TTL_MS = 1_000;
/** Lifetime of an unused gateway session: bound on cached answers while the API is away. */
const MAX_STALE_MS = 24 * 3_600_000;
const MAX_CACHED = 10_000;
const REQUEST_MS = 5_000;

interface LinkTime {
  /** Epoch milliseconds of the system date: for the ends of what is cached. */
  now(): number;
  /** Monotonic milliseconds. */
  elapsed(): number;
}
const systemTime: LinkTime = { now: () => Date.now(), elapsed: () => performance.now() };

export interface FollowDeps {
  address: LinkAddress;
  log: Log;
  time?: LinkTime;
}

export interface Following {
  /** Without dials: a connection to an instance must not depend on the API. */
  forwarding: Omit<Forwarding, 'dial' | 'dialLoopback'>;
  notebookBar: NotebookBar;
  authenticate: IdentifyCredential;
  wake: Wake;
  /**
   * Resolves with the first snapshot; `issuer` is the installation named in access tokens,
   * `ownRegionId` the region of the settings.
   */
  ready: Promise<{ issuer: string; ownRegionId: string }>;
  /** Calls back with the regions of administrators that are known, then with all at each change. */
  subscribeRegions(listener: (regions: readonly RegionToOpen[]) => void): void;
  /** Calls back with the current table, if any, then with each snapshot and change. */
  subscribe(listener: (update: RouteUpdate) => void): void;
  stop(): Promise<void>;
}

export function followLink({ address, log, time = systemTime }: FollowDeps): Following {
  const ending = new AbortController();
  const api = makeLinkClient({
    address,
    headers: { 'x-gateway': randomUUID() },
    timeoutMs: REQUEST_MS,
    away: 'the API is away for a moment, so the gateway cannot check new credentials: try again soon',
  });
  const { ask } = api;
  const revocations = makeRevocations();
  let isApiUp = false;

  const answers = makeAnswers({ ask, time, isApiUp: () => isApiUp });
  const reporter = makeReporter({
    isConnected: () => isApiUp,
    send: (report) => ask('traffic', report, z.null()).then(() => {}),
  });
  const sshLogins = makeSshLoginQueue({
    isConnected: () => isApiUp,
    send: (login) => ask('sshLogin', login, z.null()).then(() => {}),
    log,
  });
  const publish = ({ accounts, instances }: Affected): void => {
    for (const accountId of accounts) revocations.publish({ accountId });
    for (const instanceId of instances) revocations.publish({ instanceId });
  };
  const listeners: ((update: RouteUpdate) => void)[] = [];
  const notify = (update: RouteUpdate): void => {
    for (const listener of listeners) listener(update);
  };
  const { promise: ready, resolve: resolveReady } = Promise.withResolvers<{ issuer: string; ownRegionId: string }>();
  let regions: readonly RegionToOpen[] = [];
  const regionListeners: ((regions: readonly RegionToOpen[]) => void)[] = [];
  const table = makeTable({
    onRegions(received) {
      regions = received;
      for (const listener of regionListeners) listener(regions);
    },
    onSnapshot(before, routes, { issuer, ownRegionId, gone }) {
      isApiUp = true;
      if (before !== null) {
        const affected = answers.expireAll();
        for (const [id, route] of before) if (!isDeepStrictEqual(route, routes.get(id))) affected.instances.add(id);
        publish(affected);
      }
      resolveReady({ issuer, ownRegionId });
      reporter.sendAll();
      void sshLogins.sendAll();
      notify({ snapshot: 'last', routes: [...routes.values()], gone });
    },
    onChange({ snapshot, routes, gone, ended }) {
      const affected = {
        accounts: new Set(ended),
        instances: new Set([...routes.map(({ instanceId }) => instanceId), ...gone]),
      };
      answers.invalidate(affected);
      publish(affected);
      notify({ snapshot, routes, gone });
    },
  });

  async function follow(): Promise<void> {
    try {
      await readLines(await api.open('/routes', ending.signal), table.makeApply());
    } catch (error) {
      if (!ending.signal.aborted && isApiUp) log.warn({ err: error }, 'the API is away; open connections stay open');
    } finally {
      isApiUp = false;
    }
    throw new Error('the API closed the stream');
  }
  const following = retry(follow, { signal: ending.signal, firstMs: RETRY_MS });

  return {
    ready,
    subscribe(listener) {
      listeners.push(listener);
      const routes = table.routes();
      if (routes !== null) listener({ snapshot: 'last', routes: [...routes.values()], gone: [] });
    },
    subscribeRegions(listener) {
      regionListeners.push(listener);
      listener(regions);
    },
    authenticate: answers.authenticate,
    notebookBar: {
      read: (owned) => ask('bar', owned, barAnswer),
      stop: (owned, visitor) => ask('stop', { owned, visitor }, z.null()).then(() => {}),
    },
    wake: (request) => ask('wake', request, wakeAnswer),
    forwarding: {
      async route(id) {
        const routes = table.routes();
        if (routes === null) throw api.unavailable();
        return routes.get(id) ?? null;
      },
      session: answers.session,
      share: answers.share,
      ssh: answers.ssh,
      recordSshLogin: sshLogins.add,
      redeem: (handover, visitor) => ask('redeem', { handover, visitor }, redeemAnswer),
      beginTraffic: reporter.beginTraffic,
      onRevoked: revocations.onRevoked,
    },
    async stop() {
      ending.abort();
      reporter.stop();
      await following;
      api.stop();
    },
  };
}

interface Affected {
  accounts: Set<string>;
  instances: Set<string>;
}

/** Caches answers of the API: fresh for a second, or valid for a day while the API is away. */
function makeAnswers({ ask, time, isApiUp }: { ask: Ask; time: LinkTime; isApiUp: () => boolean }) {
  const cache = <Answer extends { limits?: KeyLimits } | object | null>(
    load: (question: string) => Promise<Answer>,
  ): Cache<Answer> =>
    makeCache({
      load,
      elapsed: time.elapsed,
      isExpired: (answer) => time.now() >= ((answer && 'limits' in answer && answer.limits?.expiresAtMs) || Infinity),
      ttlMs: () => (isApiUp() ? ANSWER_TTL_MS : MAX_STALE_MS),
      maxEntries: MAX_CACHED,
      // Guessed secrets must not evict valid ones.
      isCacheable: (answer) => answer !== null,
      staleOnError: {
        isAllowed: (error) => error instanceof Refusal && error.code === 'unavailable',
        maxMs: MAX_STALE_MS,
      },
    });
  const sessions = cache((secret) => ask('session', { secret }, sessionAnswer));
  const shares = cache((token) => ask('share', { token }, shareAnswer));
  const identities = cache((instanceId) => ask('ssh', { instanceId }, sshAnswer));
  const tokens = cache((token) => ask('authenticate', { kind: 'token', token }, callerAnswer));
  const keys = cache((key) => ask('authenticate', { kind: 'apiKey', key }, callerAnswer));

  return {
    authenticate: (credential: Parameters<IdentifyCredential>[0]) =>
      credential.kind === 'token' ? tokens.get(credential.token) : keys.get(credential.key),
    session: (secret: string) => sessions.get(secret),
    ssh: (instanceId: string) => identities.get(instanceId),
    async share(token: string) {
      const share = await shares.get(token);
      // A cached share may outlive its link.
      return share !== null && share.expiresAtMs > time.now() ? share : null;
    },
    /** Drops answers about accounts and instances with a revocation. */
    invalidate({ accounts, instances }: Affected): void {
      if (accounts.size > 0) {
        sessions.invalidate((session) => session !== null && accounts.has(session.accountId));
        for (const callers of [tokens, keys]) callers.invalidate(({ accountId }) => accounts.has(accountId));
      }
      if (instances.size > 0) shares.invalidate((share) => share !== null && instances.has(share.instanceId));
    },
    /** Makes all answers stale, after an outage of the API. Returns the accounts and instances. */
    expireAll(): Affected {
      const accounts = new Set<string>();
      const instances = new Set<string>();
      for (const session of sessions.expireAll()) if (session !== null) accounts.add(session.accountId);
      for (const callers of [tokens, keys]) for (const { accountId } of callers.expireAll()) accounts.add(accountId);
      for (const share of shares.expireAll()) if (share !== null) instances.add(share.instanceId);
      identities.expireAll();
      return { accounts, instances };
    },
  };
}

type RouteMessage = z.output<typeof routeMessage>;
type Routes = Map<string, GatewayRoute>;

interface TableDeps {
  onRegions: (regions: readonly RegionToOpen[]) => void;
  onSnapshot: (before: Routes | null, routes: Routes, last: RouteMessage) => void;
  onChange: (change: RouteMessage) => void;
}

/** Table of routes; null before the first snapshot. Stays valid while the API is away. */
function makeTable({ onRegions, onSnapshot, onChange }: TableDeps) {
  let table: Routes | null = null;
  return {
    routes: (): ReadonlyMap<string, GatewayRoute> | null => table,
    /** Returns what applies the lines of one stream. */
    makeApply(): (received: RouteMessage) => void {
      let fresh: Routes | null = null;
      return (received) => {
        const { snapshot, routes, gone, regions } = received;
        if (regions !== null) onRegions(regions);
        if (snapshot === null) {
          for (const route of routes) table?.set(route.instanceId, route);
          for (const id of gone) table?.delete(id);
          return onChange(received);
        }
        fresh ??= new Map();
        for (const route of routes) fresh.set(route.instanceId, route);
        if (snapshot === 'part') return;
        const before = table;
        table = fresh;
        fresh = null;
        onSnapshot(before, table, received);
      };
    },
  };
}

/** Reads until the stream ends, falls silent, or loses a line. */
async function readLines(stream: Readable, apply: (received: RouteMessage) => void): Promise<void> {
  let last = 0;
  let timer = setTimeout(() => {}, 0);
  const resetTimer = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => stream.destroy(new Error('the API no longer sends data')), SILENT_MS);
  };
  try {
    resetTimer();
    for await (const text of createInterface({ input: stream })) {
      resetTimer();
      const received = readLine(text);
      if (received.number !== last + 1) throw new Error(`line ${received.number} of the API followed line ${last}`);
      last = received.number;
      apply(received);
    }
  } finally {
    clearTimeout(timer);
    stream.destroy();
  }
}

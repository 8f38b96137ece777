/**
 * The gateway process's side of the link. Routes come from the table that the API streams; access is
 * asked from the API and cached for a second. While the API is away, table and cached answers stay
 * valid, and questions that were never asked fail with `unavailable`.
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
  type RouteUpdate,
  type IdentifyCredential,
  makeRevocations,
  type Log,
} from '../../control/index.ts';
import { Refusal } from '../../domain/refusal.ts';
import { makeAsker } from './socket-client.ts';
import { refusalIn } from './replies.ts';
import { callerAnswer, line, redeemAnswer, sessionAnswer, shareAnswer, sshAnswer, SILENT_MS } from './wire.ts';
import { makeReporter } from './reporter.ts';

const AGAIN_MS = 250;
const FRESH_MS = 1_000;
/** Lifetime of an unused gateway session: bound on cached answers while the API is away. */
const LONGEST_STALE_MS = 24 * 3_600_000;
const MAX_CACHED = 10_000;
const ASK_MS = 5_000;

export interface FollowDeps {
  path: string;
  /** Dials engines directly: a connection must not depend on the API. */
  dial: Forwarding['dial'];
  /** Receives each snapshot of the table and each change. */
  onTold?: (told: RouteUpdate) => void;
  log: Log;
  now?: () => number;
}

export interface Following {
  forwarding: Forwarding;
  authenticate: IdentifyCredential;
  /** Resolves with the first snapshot; `issuer` is the installation named in access tokens. */
  ready: Promise<{ issuer: string }>;
  stop(): Promise<void>;
}

export function followLink({ path, dial, onTold = () => {}, log, now = Date.now }: FollowDeps): Following {
  const gateway = randomUUID();
  const ending = new AbortController();
  const api = makeAsker({ socketPath: path, headers: { 'x-gateway': gateway }, patienceMs: ASK_MS });
  const endings = makeRevocations();
  let table: Map<string, GatewayRoute> | null = null;
  let isThere = false;
  const { promise: ready, resolve: tellReady } = Promise.withResolvers<{ issuer: string }>();

  async function ask<Answer extends z.ZodType>(verb: string, body: object, answer: Answer): Promise<z.output<Answer>> {
    const { status, told } = await api.ask(`/${verb}`, body).catch((cause: unknown) => {
      throw away(cause);
    });
    if (status === 200) return answer.parse(told);
    throw refusalIn(told);
  }

  const answersOf = <Answer>(load: (question: string) => Promise<Answer>): Cache<Answer> =>
    makeCache({
      load,
      now,
      ttlMs: () => (isThere ? FRESH_MS : LONGEST_STALE_MS),
      maxEntries: MAX_CACHED,
      // Guessed secrets must not evict valid ones.
      isCacheable: (answer) => answer !== null,
      staleOnError: {
        isAllowed: (error) => error instanceof Refusal && error.code === 'unavailable',
        maxMs: LONGEST_STALE_MS,
      },
    });
  const sessions = answersOf((secret) => ask('session', { secret }, sessionAnswer));
  const shares = answersOf((token) => ask('share', { token }, shareAnswer));
  const identities = answersOf((instanceId) => ask('ssh', { instanceId }, sshAnswer));
  const tokens = answersOf((token) => ask('authenticate', { kind: 'token', token }, callerAnswer));
  const keys = answersOf((key) => ask('authenticate', { kind: 'apiKey', key }, callerAnswer));
  const reporter = makeReporter({
    isThere: () => isThere,
    send: (report) => ask('traffic', report, z.null()).then(() => {}),
  });

  /** Invalidates cached answers of accounts and instances with a revocation. */
  function lookAnew(accounts: ReadonlySet<string>, instances: ReadonlySet<string>): void {
    if (accounts.size > 0) {
      sessions.invalidate((session) => session !== null && accounts.has(session.accountId));
      for (const callers of [tokens, keys]) callers.invalidate(({ accountId }) => accounts.has(accountId));
    }
    if (instances.size > 0) shares.invalidate((opened) => opened !== null && instances.has(opened.instanceId));
    tellEnded(accounts, instances);
  }

  /** After an outage of the API: makes all answers stale and rechecks open connections. */
  function lookAtAll(before: ReadonlyMap<string, GatewayRoute>, after: ReadonlyMap<string, GatewayRoute>): void {
    const accounts = new Set<string>();
    const instances = new Set<string>();
    for (const session of sessions.expireAll()) if (session !== null) accounts.add(session.accountId);
    for (const callers of [tokens, keys]) for (const { accountId } of callers.expireAll()) accounts.add(accountId);
    for (const opened of shares.expireAll()) if (opened !== null) instances.add(opened.instanceId);
    identities.expireAll();
    for (const [id, route] of before) if (!isDeepStrictEqual(route, after.get(id))) instances.add(id);
    tellEnded(accounts, instances);
  }

  function tellEnded(accounts: ReadonlySet<string>, instances: ReadonlySet<string>): void {
    for (const accountId of accounts) endings.publish({ accountId });
    for (const instanceId of instances) endings.publish({ instanceId });
  }

  /** Reads until the stream ends, falls silent, or loses a line. */
  async function read(stream: Readable): Promise<void> {
    let fresh: Map<string, GatewayRoute> | null = null;
    let last = 0;
    let timer = setTimeout(() => {}, 0);
    const listen = (): void => {
      clearTimeout(timer);
      timer = setTimeout(() => stream.destroy(new Error('the API says nothing any more')), SILENT_MS);
    };
    try {
      listen();
      for await (const text of createInterface({ input: stream })) {
        listen();
        const { number, snapshot, routes, gone, ended, issuer } = line.parse(JSON.parse(text));
        if (number !== last + 1) throw new Error(`line ${number} of the API came behind line ${last}`);
        last = number;
        if (snapshot !== null) {
          fresh ??= new Map();
          for (const route of routes) fresh.set(route.instanceId, route);
          if (snapshot === 'part') continue;
          const before = table;
          table = fresh;
          fresh = null;
          isThere = true;
          if (before !== null) lookAtAll(before, table);
          tellReady({ issuer });
          reporter.sendAll();
          onTold({ snapshot, routes: [...table.values()], gone });
        } else {
          for (const route of routes) table?.set(route.instanceId, route);
          for (const id of gone) table?.delete(id);
          lookAnew(new Set(ended), new Set([...routes.map(({ instanceId }) => instanceId), ...gone]));
          onTold({ snapshot, routes, gone });
        }
      }
    } finally {
      clearTimeout(timer);
      stream.destroy();
    }
  }

  async function follow(): Promise<void> {
    try {
      await read(await api.open('/routes', ending.signal));
    } catch (error) {
      if (!ending.signal.aborted && isThere) log.warn({ err: error }, 'the API is away; open connections stay open');
    } finally {
      isThere = false;
    }
    throw new Error('the API closed the stream');
  }
  const following = retry(follow, { signal: ending.signal, firstMs: AGAIN_MS });

  return {
    ready,
    authenticate: (credential) =>
      credential.kind === 'token' ? tokens.get(credential.token) : keys.get(credential.key),
    forwarding: {
      async route(id) {
        if (table === null) throw away();
        return table.get(id) ?? null;
      },
      session: (secret) => sessions.get(secret),
      async share(token) {
        const opened = await shares.get(token);
        // A cached share may outlive its link.
        return opened !== null && opened.expiresAtMs > now() ? opened : null;
      },
      ssh: (instanceId) => identities.get(instanceId),
      redeem: (handover) => ask('redeem', { handover }, redeemAnswer),
      dial,
      beginTraffic: reporter.beginTraffic,
      onRevoked: endings.onRevoked,
    },
    async stop() {
      ending.abort();
      reporter.stop();
      await following;
      api.stop();
    },
  };
}

const away = (cause?: unknown): Refusal =>
  new Refusal(
    'unavailable',
    'the API is away for a moment, and only what was open before can be reached: try again soon',
    {
      detail: cause,
      retryAfterS: 2,
    },
  );

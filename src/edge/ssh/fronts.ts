import type { Forwarding, GatewayRoute, SshBackend, RouteUpdate, Log } from '../../control/index.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import { bufferedBytesLimits, makeBufferedBytes } from './buffered-bytes.ts';
import { makeBoundedMap } from '../../async/bounded-map.ts';
import { makeKeyedLimit, makeTokenBucket } from '../../async/limits.ts';
import { makeUnauthenticatedConnections, unauthenticatedLimits } from './unauthenticated.ts';
import { frontLimits, startFront, type AccountRates, type Front, type FrontLimits } from './front.ts';

const CHECK_EVERY_MS = 10_000;
/** Permits that each account has, even if others hold all. */
const MAX_SHARE = 8;
const PART_OF_SHARE = 1 / 8;
const MAX_ACCOUNTS = 10_000;

export interface SshFrontsDeps {
  backend: SshBackend;
  access: Forwarding['ssh'];
  recordLogin: Forwarding['recordSshLogin'];
  log: Log;
  /** File descriptors for all instances: connections, ports and commands. */
  files: number;
  checkEveryMs?: number;
  limits?: Partial<FrontLimits>;
}

export interface SshFronts {
  update(update: RouteUpdate): void;
  stop(): Promise<void>;
}

export function makeSshFronts(deps: SshFrontsDeps): SshFronts {
  const { backend, access, recordLogin, log, files, checkEveryMs = CHECK_EVERY_MS } = deps;
  const limits = { ...frontLimits, ...deps.limits };
  const fronts = new Map<InstanceId, Front>();
  const maxUnauthenticated = Math.min(unauthenticatedLimits.total, Math.ceil(files / 4));
  const unauthenticated = makeUnauthenticatedConnections({ ...unauthenticatedLimits, total: maxUnauthenticated });
  // An account may hold as much as is free, which leaves permits for the next one.
  const total = files - maxUnauthenticated;
  const share = Math.min(MAX_SHARE, Math.floor(total * PART_OF_SHARE));
  const limit = makeKeyedLimit({ total, perKey: (free) => Math.max(free, share), share });
  const ratesOf = makeBoundedMap<AccountRates>({ maxEntries: MAX_ACCOUNTS });
  const buffered = makeBufferedBytes(bufferedBytesLimits);
  const stopping = new Set<Promise<void>>();
  let snapshot = new Set<string>();
  let isStopped = false;

  const stopFront = (id: InstanceId): void => {
    const front = fronts.get(id);
    if (!front) return;
    fronts.delete(id);
    const stopped = front.stop().finally(() => stopping.delete(stopped));
    stopping.add(stopped);
  };
  const accountRates = (ownerId: string): AccountRates => {
    const now = (): number => performance.now();
    const rates = ratesOf.peek(ownerId) ?? {
      takeConnection: makeTokenBucket(limits.accountConnectionRate, now),
      takeExchange: makeTokenBucket(limits.accountExchangeRate, now),
    };
    ratesOf.set(ownerId, rates);
    return rates;
  };
  const begin = (id: InstanceId, ownerId: string): Front => {
    const account = { ...accountRates(ownerId), tryAcquire: () => limit.tryAcquire(ownerId) };
    return startFront({ id, account, backend, access, recordLogin, unauthenticated, buffered, limits, log });
  };
  const applyRoute = ({ instanceId: id, ownerId, sshFront }: GatewayRoute): void => {
    if (!sshFront) stopFront(id);
    else if (!fronts.has(id)) fronts.set(id, begin(id, ownerId));
  };

  const timer = setInterval(() => {
    for (const [id, front] of fronts)
      front.check().catch((error: unknown) => {
        log.warn({ id, err: error }, 'could not recheck ssh sessions; Berth retries at the next check');
      });
  }, checkEveryMs);
  timer.unref();

  return {
    update({ snapshot: part, routes, gone }) {
      if (isStopped) return;
      for (const route of routes) applyRoute(route);
      for (const id of fronts.keys()) if (gone.includes(id)) stopFront(id);
      if (part === null) return;
      for (const { instanceId, sshFront } of routes) if (sshFront) snapshot.add(instanceId);
      if (part === 'part') return;
      for (const id of fronts.keys()) if (!snapshot.has(id)) stopFront(id);
      snapshot = new Set();
    },
    async stop() {
      isStopped = true;
      clearInterval(timer);
      for (const id of fronts.keys()) stopFront(id);
      await Promise.all(stopping);
    },
  };
}

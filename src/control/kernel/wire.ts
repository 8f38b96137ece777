/** Parts that every subject uses: store, drivers, clock, changes, leases and tasks. */
import { defaultLimits, type Limits } from '../../domain/compute/instance-states.ts';
import { DEFAULT_SPOT_GRACE_MS } from '../../domain/compute/spot.ts';
import { permanentHold, type Hold } from '../../store/db/database-lock.ts';
import { noReserve, type SpaceReserve } from '../../store/db/space-reserve.ts';
import { makeCatalogCache } from './catalog-cache.ts';
import { makeChanges } from './changes.ts';
import { makeRetention } from './delete-expired.ts';
import type { TaskDeps } from './deps.ts';
import { makeIdempotent } from './idempotent.ts';
import { makeOutageLog } from './outage-log.ts';
import { makeScheduler, task, type Task } from './scheduler.ts';
import { makeSeal } from './seal.ts';

export interface KernelOptions extends Pick<TaskDeps, 'store' | 'regions' | 'log' | 'time'> {
  /** In [0, 1); draws node ports. */
  random: () => number;
  randomUuid: () => string;
  randomBytes: (size: number) => Uint8Array;
  /** 32 bytes; seals stored secrets, such as the signing key and registry passwords. */
  secretsKey: Uint8Array;
  /** Space for the database on a full disk; default: none. */
  reserve?: SpaceReserve;
  /** Default: held until the end. */
  hold?: Hold;
  limits?: Partial<Limits>;
  /** Retention of events and finished operations; default 30 days. */
  eventRetentionMs?: number;
  /** From the reclaim of a spot instance to its stop; default 2 minutes. */
  spotGraceMs?: number;
  /** True if no other process shares the store: existing leases are stale. */
  alone: boolean;
}

const RESERVE_INTERVAL_MS = 1_000;

export type Kernel = ReturnType<typeof wireKernel>['parts'];

export function wireKernel(options: KernelOptions) {
  const { secretsKey, randomBytes, randomUuid, random, store, regions, time, alone, eventRetentionMs } = options;
  const reserve = options.reserve ?? noReserve;
  const hold = options.hold ?? permanentHold;
  const shutdown = new AbortController();
  const log = makeOutageLog(options.log, { regions, reserve });
  const stopping = shutdown.signal;
  const parts = {
    store,
    regions,
    time,
    log,
    random,
    randomUuid,
    randomBytes,
    secretsKey,
    alone,
    eventRetentionMs,
    reserve,
    hold,
    limits: { ...defaultLimits, ...options.limits },
    spotGraceMs: options.spotGraceMs ?? DEFAULT_SPOT_GRACE_MS,
    changes: makeChanges(),
    shutdown,
    stopping,
    ...makeCatalogCache(options),
    idempotent: makeIdempotent(secretsKey),
    seal: makeSeal({ key: secretsKey, randomBytes }),
    scheduler: makeScheduler({ time, log, stopping, hold }),
  };
  const tasks: Task[] = [task('space reserve', RESERVE_INTERVAL_MS, () => reserve.check())];
  return { parts, tasks, retention: makeRetention(parts) };
}

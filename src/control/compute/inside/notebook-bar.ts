/**
 * Figures of the bar in an open notebook, and its Stop. The gateway authorizes: callers name the
 * owner.
 */
import { makeCache } from '../../../async/cache.ts';
import { AUDIT_OK, type AuditCredential } from '../../../domain/access/audit.ts';
import { currentPriceMicros } from '../../../domain/compute/instance-change.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import { noticeOf } from '../../../domain/compute/notice.ts';
import { stopDueAtMs } from '../../../domain/compute/stop-policy.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { perHourMicros } from '../../../domain/money/offer.ts';
import { sumOfCards, type CardSum } from '../../../domain/regions/card-health.ts';
import { toDollars } from '../../../domain/regions/catalog.ts';
import { accountById } from '../../../store/tables/accounts.ts';
import { instanceFromRow, ownedInstanceRow } from '../../../store/tables/instances.ts';
import type { AccessParts, Visitor } from '../../access/ports.ts';
import type { Kernel } from '../../kernel/ports.ts';
import type { MeteredDeps } from '../../money/ports.ts';
import type { IdleDetector } from '../auto-stop/idle-detector.ts';
import { requestAction } from '../instances/actions.ts';
import { costsSoFar } from './metrics/figures.ts';
import type { Sampler } from './metrics/sampler.ts';

/** Costs in dollars. */
export interface BarFigures {
  name: string;
  status: string;
  pricePerHour: number;
  costSoFar: number;
  /** Milliseconds until the next automatic stop; null: none is due. */
  stopsInMs: number | null;
  /** Null without GPUs. */
  gpus: CardSum | null;
}

export interface OwnedInstance {
  ownerId: string;
  instanceId: string;
}

export interface NotebookBar {
  /** Figures of the last ten seconds. Throws `not_found`. */
  read(owned: OwnedInstance): Promise<BarFigures>;
  /** Requests the stop, and records it in the audit log. Throws the refusals of a stop. */
  stop(owned: OwnedInstance, visitor: Visitor & { credential: AuditCredential }): Promise<void>;
}

type NotebookBarDeps = MeteredDeps &
  Pick<Kernel, 'randomUuid' | 'time'> & {
    audit: Pick<AccessParts['audit'], 'record'>;
    idleDetector: Pick<IdleDetector, 'report'>;
    sampler: Pick<Sampler, 'latestOf'>;
  };

const TTL_MS = 10_000;
const MAX_CACHED = 10_000;

export function makeNotebookBar(deps: NotebookBarDeps): NotebookBar {
  const { store, time, audit, idleDetector, sampler } = deps;

  const stopsAtMs = (instance: Instance): number | null => {
    const stops = [
      stopDueAtMs(instance),
      noticeOf(instance)?.atMs ?? null,
      idleDetector.report(instance)?.willStopAtMs ?? null,
    ].filter((atMs) => atMs !== null);
    return stops.length === 0 ? null : Math.min(...stops);
  };

  const cache = makeCache({
    elapsed: time.elapsed,
    ttlMs: TTL_MS,
    maxEntries: MAX_CACHED,
    load: async (key) => {
      const [ownerId = '', instanceId = ''] = key.split(' ');
      const row = await ownedInstanceRow(store.read, ownerId, instanceId);
      if (!row) throw instanceNotFound();
      const instance = instanceFromRow(row);
      const { name, chargeMode, type } = instance.spec;
      const costs = await costsSoFar(deps, [instanceId]);
      const usage = sampler.latestOf(instanceId)?.usage ?? null;
      return {
        stopsAtMs: stopsAtMs(instance),
        figures: {
          name,
          status: instance.observed.status,
          pricePerHour: toDollars(perHourMicros({ chargeMode, priceMicros: currentPriceMicros(instance) })),
          costSoFar: toDollars(costs.get(instanceId) ?? 0),
          gpus: type.gpuCount === 0 ? null : sumOfCards(usage?.gpus ?? []),
        },
      };
    },
  });
  const keyOf = ({ ownerId, instanceId }: OwnedInstance): string => `${ownerId} ${instanceId}`;

  async function recordStop(
    { ownerId, instanceId }: OwnedInstance,
    visitor: Parameters<NotebookBar['stop']>[1],
    outcome: string,
  ): Promise<void> {
    const account = await accountById(store.read, ownerId);
    await audit.record({
      route: 'notebookStop',
      outcome,
      caller: { accountId: ownerId, username: account?.username ?? '', sessionId: null },
      loginName: null,
      subjects: [instanceId],
      requestId: deps.randomUuid(),
      ...visitor,
    });
  }

  return {
    async read(owned) {
      const { figures, stopsAtMs: atMs } = await cache.get(keyOf(owned));
      return { ...figures, stopsInMs: atMs === null ? null : Math.max(0, atMs - time.now()) };
    },
    async stop(owned, visitor) {
      let outcome = AUDIT_OK;
      try {
        await requestAction(deps, { action: 'stop', ...owned, cause: 'user' }, owned.ownerId, null);
        cache.invalidateKey(keyOf(owned));
      } catch (error) {
        outcome = error instanceof Refusal ? error.code : 'internal';
        throw error;
      } finally {
        await recordStop(owned, visitor, outcome);
      }
    },
  };
}

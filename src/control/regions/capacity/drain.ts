/**
 * Drains of regions. Under the region's lock, so that each launch and start comes before the drain
 * or is refused; entries of the capacity queue wait until the drain ends.
 */
import type { Drain } from '../../../domain/regions/drain.ts';
import { Refusal, regionNotFound } from '../../../domain/kernel/refusal.ts';
import { lockRegion } from '../../../store/tables/capacity.ts';
import { regionWithUsage, saveDrain } from '../../../store/tables/catalog.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { activeInstances, activeOwners } from '../../../store/tables/operator-lists.ts';
import { reevaluateQueue } from './queue.ts';
import {
  type ActHandler,
  type Caller,
  type Mutation,
  type StopAutomatically,
  type TaskDeps,
  type UseCaseDeps,
  eachOf,
  idempotentWrite,
} from '../../kernel/ports.ts';

type DrainStopDeps = Pick<TaskDeps, 'store' | 'time'> & { stopAutomatically: StopAutomatically };

export interface DrainRequest {
  regionId: string;
  drain: boolean;
  reason: string;
  /** Absent: running instances stay. */
  stopRunningAfterMs?: number | undefined;
}

export type SetDrain = Mutation<DrainRequest, { regionId: string; drain: Drain | null }>;

export const makeSetDrain =
  (deps: UseCaseDeps): SetDrain =>
  async ({ accountId }: Caller, { regionId, drain: isOn, reason, stopRunningAfterMs }, idempotency) => {
    if (!isOn && stopRunningAfterMs !== undefined)
      throw new Refusal(
        'field_value',
        'field "stopRunningAfterMinutes" is set, but "drain" is false; leave it out, or send "drain": true',
      );
    const answer = await idempotentWrite(deps, accountId, idempotency, async (tx, nowMs) => {
      const counted = await lockRegion(tx, regionId);
      if (!counted) throw regionNotFound(regionId);
      const stopAtMs = stopRunningAfterMs === undefined ? null : nowMs + stopRunningAfterMs;
      const drain = isOn ? { reason, sinceMs: counted.drain?.sinceMs ?? nowMs, stopAtMs } : null;
      await saveDrain(tx, regionId, drain);
      if (!isOn) await reevaluateQueue(tx, regionId, nowMs);
      const kind = isOn ? 'region.drained' : 'region.drainEnded';
      const data = { reason, ...(isOn ? { stopAtUnixMs: stopAtMs } : {}) };
      const notified = new Set([accountId, ...(await activeOwners(tx, regionId))]);
      for (const id of [...notified].toSorted())
        await appendEvent(tx, { accountId: id, atMs: nowMs, kind, subjectId: regionId, data });
      return { regionId, drain };
    });
    deps.changes.publish({ subject: 'instance', isDue: true });
    return answer;
  };

const AT_ONCE = 500;

/** Stops what runs in a drained region past its time. */
export const makeDrainStops =
  ({ store, time, stopAutomatically }: DrainStopDeps): ActHandler =>
  async ({ id }) => {
    const drain = (await regionWithUsage(store.read, id))?.drain;
    if (!drain || drain.stopAtMs === null || drain.stopAtMs > time.now()) return drain?.stopAtMs ?? null;
    const { reason } = drain;
    const running = await activeInstances(store.read, id, AT_ONCE);
    await eachOf(running, (one) => stopAutomatically(one, () => ({ cause: 'operator', reason })));
    return running.length < AT_ONCE ? null : time.now();
  };

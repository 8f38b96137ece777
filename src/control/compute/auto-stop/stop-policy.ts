/** The owner's stop policy, changed at once without an operation; idle status. */
import {
  stopDueAtMs,
  nextStopPolicy,
  type StopPolicy,
  type StopPolicyRules,
  type StopPolicyRequest,
} from '../../../domain/compute/stop-policy.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import { instanceNotFound, Refusal } from '../../../domain/kernel/refusal.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { lockInstance, instanceFromRow, writeRevision } from '../../../store/tables/instances.ts';
import { requireOwned } from '../inside/require-instance.ts';
import type { IdleDetector, IdleStatus } from './idle-detector.ts';
import type { Caller, UseCaseDeps } from '../../kernel/ports.ts';

export interface InstanceStopPolicy extends Omit<StopPolicy, 'keepAliveUntilMs'> {
  instanceId: string;
  keepAliveUntilMs: number | null;
  endsAtMs: number | null;
}

export interface StopPolicies {
  /** Absent members stay unchanged, null removes; an empty request only reads. */
  set(caller: Caller, instanceId: string, request: StopPolicyRequest): Promise<InstanceStopPolicy>;
  keepAlive(caller: Caller, instanceId: string, forMs: number): Promise<InstanceStopPolicy>;
  idleStatus(caller: Caller, instanceId: string): Promise<IdleStatus>;
}

/** Keep-alive times are rounded up to a minute, so repeated calls within it write nothing. */
const KEEP_ALIVE_STEP_MS = 60_000;

export interface StopPolicyDeps extends Pick<UseCaseDeps, 'store' | 'readCatalog' | 'time'> {
  stopPolicyRules: StopPolicyRules;
  idleDetector: Pick<IdleDetector, 'report'>;
}

export function makeStopPolicies(deps: StopPolicyDeps): StopPolicies {
  const { store, readCatalog, time, stopPolicyRules, idleDetector } = deps;
  const change = async (
    caller: Caller,
    id: string,
    kind: string,
    next: (before: Instance, nowMs: number) => StopPolicy,
  ) => {
    const { regions } = await readCatalog();
    return store.write(async (tx) => {
      const row = await lockInstance(tx, caller.accountId, id);
      if (!row) throw instanceNotFound();
      const before = instanceFromRow(row);
      const region = regions.get(row.regionId)?.region;
      if (!region) throw new Refusal('unavailable', `region ${row.regionId} is not configured on this server`);
      const nowMs = time.now();
      const instance = { ...before, stopPolicy: next(before, nowMs) };
      const published = publicStopPolicy(instance, nowMs);
      if (JSON.stringify(instance.stopPolicy) === JSON.stringify(before.stopPolicy)) return published;
      await writeRevision(tx, before, instance, region);
      await appendEvent(tx, { accountId: caller.accountId, atMs: nowMs, kind, subjectId: id, data: published });
      return published;
    });
  };

  return {
    set: (caller, instanceId, request) =>
      change(caller, instanceId, 'instance.endsSet', ({ stopPolicy, observed }, nowMs) => {
        const next = nextStopPolicy(stopPolicy, request, observed, stopPolicyRules, nowMs);
        if (typeof next === 'string') throw new Refusal('field_value', next);
        return next;
      }),
    keepAlive: (caller, instanceId, forMs) =>
      change(caller, instanceId, 'instance.keepAlive', ({ stopPolicy }, nowMs) => {
        // A short call must not shorten another program's longer keep-alive.
        const untilMs = Math.ceil((nowMs + forMs) / KEEP_ALIVE_STEP_MS) * KEEP_ALIVE_STEP_MS;
        const keepAliveUntilMs = forMs === 0 ? 0 : Math.max(stopPolicy.keepAliveUntilMs, untilMs);
        return { ...stopPolicy, keepAliveUntilMs };
      }),
    async idleStatus(caller, instanceId) {
      const instance = await requireOwned(store, caller, instanceId);
      const { status } = instance.observed;
      const none = { idleSinceMs: null, willStopAtMs: null, checkedAtMs: null, signals: [] };
      if (instance.stopPolicy.idle === null)
        return { ...none, state: 'off', because: 'no idle stop is set; /instance/ends sets one' };
      if (status !== 'Running' || instance.desired !== 'running')
        return {
          ...none,
          state: 'off',
          because: `the instance is ${status}; idle detection runs only while the status and the desired state are Running`,
        };
      return (
        idleDetector.report(instance) ?? {
          ...none,
          state: 'unknown',
          because: 'idle detection has not checked the instance yet',
        }
      );
    },
  };
}

const publicStopPolicy = (instance: Instance, nowMs: number): InstanceStopPolicy => ({
  instanceId: instance.id,
  ...instance.stopPolicy,
  keepAliveUntilMs: instance.stopPolicy.keepAliveUntilMs > nowMs ? instance.stopPolicy.keepAliveUntilMs : null,
  endsAtMs: stopDueAtMs(instance),
});

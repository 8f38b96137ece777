/** Stop, start, restart and terminate: each writes a wish over the one that stands, and leaves the deed to the pass. */
import { after, whyNot, type Action } from '../domain/instance-states.ts';
import type { Instance } from '../domain/instance.ts';
import { beginOperation, type Cause } from '../domain/operation.ts';
import { Refusal } from '../domain/refusal.ts';
import { endGrantsFor } from '../store/gateway-grants.ts';
import { appendEvent } from '../store/events.ts';
import { countCapacity, holdInstance, instanceFromRow, writeWish } from '../store/instances.ts';
import type { Db, Store } from '../store/store.ts';
import type { Caller, Idempotency } from './control.ts';
import { noCapacity } from './launch.ts';
import type { Offers } from './offers.ts';
import { once } from './once.ts';

export interface ActionNeeds {
  store: Store;
  offers: () => Promise<Offers>;
  now: () => number;
  wake: () => void;
  /** The gateway's route of this instance changed. */
  routeChanged: (instanceId: string) => void;
}

/** The wish that an action is, pure. Status changes that the caller sees at once are part of it. */
export function wishOf(action: Action, instance: Instance, nowMs: number, cause: Cause = 'user'): Instance {
  const { observed } = instance;
  const next = {
    ...instance,
    generation: instance.generation + 1,
    wishedAtMs: nowMs,
    attempts: 0,
    waitsSinceMs: null,
    waitsUntilMs: null,
    operation: beginOperation(action, cause, nowMs),
  };
  const calm = {
    ...observed,
    diagnosis: '',
    diagnosisMessage: '',
    message: '',
    countedFromMs: 0,
    progress: null,
  } as const;
  switch (action) {
    case 'stop':
      return { ...next, desired: 'stopped', mustHalt: false, observed: { ...calm, phase: 'Stopping' } };
    case 'start':
      return {
        ...next,
        desired: 'running',
        mustHalt: false,
        observed: {
          ...calm,
          status: after(observed.status, hadContainer(instance) ? 'start' : 'startAnew'),
          phase: 'Queued',
          stoppedAtMs: 0,
        },
      };
    case 'restart':
      return {
        ...next,
        desired: 'running',
        mustHalt: true,
        observed: {
          ...calm,
          status: after(observed.status, 'restart'),
          phase: 'Stopping',
          healthy: false,
          runningSinceMs: 0,
        },
      };
    case 'archive':
      return {
        ...next,
        desired: 'archived',
        mustHalt: false,
        observed: { ...calm, phase: observed.status === 'Running' ? 'Stopping' : 'Archiving' },
      };
    case 'terminate':
      return {
        ...next,
        desired: 'released',
        mustHalt: false,
        observed: {
          ...calm,
          status: after(observed.status, 'terminate'),
          phase: 'Cleaning',
          healthy: false,
          runningSinceMs: 0,
          stoppedAtMs: observed.stoppedAtMs || nowMs,
        },
      };
    default:
      return action satisfies never;
  }
}

const hadContainer = ({ everEnsured, observed }: Instance): boolean =>
  (everEnsured && observed.status !== 'InitializationFailed') || observed.status === 'Archived';

const eventOf = {
  stop: 'instance.stopWished',
  start: 'instance.startWished',
  restart: 'instance.restartWished',
  archive: 'instance.archiveWished',
  terminate: 'instance.released',
};

export function makeAction(action: Action, needs: ActionNeeds) {
  return async (caller: Caller, body: { instanceId: string }, idempotency: Idempotency | null) => {
    const offers = await needs.offers();
    const answer = await needs.store.write((tx) => {
      const nowMs = needs.now();
      const deed = () => write(tx, action, offers, caller, body.instanceId, nowMs);
      return once(tx, caller.accountId, idempotency, nowMs, deed);
    });
    needs.routeChanged(body.instanceId);
    needs.wake();
    return answer;
  };
}

async function write(tx: Db, action: Action, offers: Offers, caller: Caller, id: string, nowMs: number) {
  const row = await holdInstance(tx, caller.accountId, id);
  if (!row) throw new Refusal('not_found', 'ent: instance not found');
  const instance = instanceFromRow(row);
  const why = whyNot(action, instance.observed.status, instance.desired);
  if (why) throw new Refusal('not_now', `can't ${action} instance ${id}: ${why}`);
  const counted = offers.regions.get(instance.spec.regionId);
  if (!counted) throw new Refusal('unavailable', `region ${instance.spec.regionId} is not configured on this server`);

  const held = row.holdsCapacity === 1;
  const holdsCapacity = action === 'start' || (held && action !== 'terminate');
  if (holdsCapacity && !held && !(await countCapacity(tx, row.regionId, instance.spec.type, 1))) {
    throw await noCapacity(tx, { type: instance.spec.type, counted, offers }, 0);
  }
  if (held && !holdsCapacity) await countCapacity(tx, row.regionId, instance.spec.type, -1);
  await writeWish(tx, wishOf(action, instance, nowMs), counted.region, {
    dueAtMs: nowMs,
    holdsCapacity,
    releasedAtMs: action === 'terminate' ? nowMs : null,
  });
  await appendEvent(tx, { accountId: caller.accountId, atMs: nowMs, kind: eventOf[action], subjectId: id, data: {} });
  // Under the account's lock, which the event has taken: a redeem under way comes before or finds nothing.
  if (action === 'terminate') await endGrantsFor(tx, id);
  return { instanceId: id };
}

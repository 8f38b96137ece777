import type { Caller } from '../../src/control/index.ts';
import { idlePolicy } from '../../src/domain/compute/idle.ts';
import type { UpdateInput } from '../../src/control/compute/instances/instances.ts';
import type { Request } from './client.ts';
import type { World } from './world.ts';

const hasId = (answer: unknown): answer is { imageId: string } =>
  typeof answer === 'object' && answer !== null && 'imageId' in answer && typeof answer.imageId === 'string';

interface PendingPolicy {
  alone: boolean;
}

/** Unanswered requests by instance; requests without any answer stay. */
const pendingPolicies = new WeakMap<World, Map<string, Set<PendingPolicy>>>();

function pendingOf(world: World, id: string): Set<PendingPolicy> {
  const all = pendingPolicies.get(world) ?? new Map<string, Set<PendingPolicy>>();
  pendingPolicies.set(world, all);
  const some = all.get(id) ?? new Set();
  all.set(id, some);
  return some;
}

/** Idempotent by itself, so it has no key. */
export function setStopPolicy(world: World, caller: Caller, id: string): Request {
  const { schedule, wallClock, checker } = world;
  const underWay = pendingOf(world, id);
  const mine: PendingPolicy = { alone: true };
  const inMs = schedule.spread(1_000, 600_000);
  const stopAtMs = schedule.chance(0.7) ? wallClock.now() + inMs : null;
  const maxRunMs = schedule.chance(0.3) ? 60_000 * schedule.between(1, 10) : null;
  // The drawn load would keep half of the instances active.
  const idle = schedule.chance(0.2) ? idlePolicy(60_000 * schedule.between(1, 5), { ignore: ['cpu'] }) : null;
  return {
    text: `ends of ${id}: at ${stopAtMs}, after ${maxRunMs}, idle for ${idle?.afterMs ?? null}`,
    caller,
    key: null,
    send: (control) => control.stopPolicies.set(caller, id, { stopAtMs, maxRunMs, idle }),
    sent() {
      for (const other of underWay) other.alone = false;
      mine.alone &&= underWay.size === 0;
      underWay.add(mine);
    },
    answered() {
      underWay.delete(mine);
      const stored = checker.instances.get(id)?.instance.stopPolicy;
      // A start clears a passed stop time; of two concurrent requests either may win.
      const isOver = stored?.stopAtMs === null && stopAtMs !== null && stopAtMs <= wallClock.now();
      const asSet =
        (stored?.stopAtMs === stopAtMs || isOver) &&
        stored?.maxRunMs === maxRunMs &&
        stored?.idle?.afterMs === idle?.afterMs;
      if (mine.alone && !asSet) world.fail(`the ends of ${id} were acknowledged, and are ${JSON.stringify(stored)}`);
    },
    refused: () => void underWay.delete(mine),
  };
}

export function keepAlive(world: World, caller: Caller, id: string): Request {
  const { schedule, checker } = world;
  const forMs = schedule.spread(10_000, 600_000);
  return {
    text: `keep ${id} for ${forMs}`,
    caller,
    key: null,
    send: (control) => control.stopPolicies.keepAlive(caller, id, forMs),
    sent: () => {},
    answered(answer) {
      const stored = checker.instances.get(id)?.instance.stopPolicy.keepAliveUntilMs ?? 0;
      const until =
        typeof answer === 'object' && answer !== null && 'keepAliveUntilMs' in answer ? answer.keepAliveUntilMs : null;
      // A concurrent request may ask for longer.
      if (typeof until !== 'number' || stored < until)
        world.fail(`${id} was to be kept until ${String(until)}, and is until ${stored}`);
    },
    refused: () => {},
  };
}

/** An acknowledged change is pending, or applied by a start meanwhile. */
export function change(world: World, caller: Caller, id: string, key: string | null, input: UpdateInput): Request {
  return {
    text: `change ${id}: ${JSON.stringify(input)}`,
    caller,
    key,
    send: (control, idempotency) => control.instances.update(caller, { instanceId: id, ...input }, idempotency),
    sent: () => {},
    answered(answer, first) {
      const instance = world.checker.instances.get(id)?.instance;
      if (!instance) return world.fail(`${id} was changed, and is not in the database`);
      const isPending = typeof answer === 'object' && answer !== null && 'appliesAt' in answer;
      if (!isPending) return world.fail(`a change was answered with ${JSON.stringify(answer)}`);
      if (first && answer.appliesAt === 'nextStart' && instance.revision === 0)
        world.fail(`a change of ${id} was acknowledged, and is not written down`);
    },
    refused: () => {},
  };
}

/** Cancels the current operation: a launch by terminate, any other by stop. */
export function cancel(world: World, caller: Caller, id: string, key: string | null): Request {
  const { model, checker } = world;
  const operationId = `${id}.${checker.instances.get(id)?.instance.generation ?? 1}`;
  const forget = (): void => {
    model.refused(id, 'released');
    model.refused(id, 'stopped');
  };
  return {
    text: `cancel ${operationId}`,
    caller,
    key,
    send: (control, idempotency) => control.operations.cancel(caller, { operationId }, idempotency),
    sent() {
      model.requested(id, 'released');
      model.requested(id, 'stopped');
    },
    answered(_, first) {
      const [row] = checker.rows<{ desired: string }>('select desired from instance where id = ?', id);
      forget();
      if (row?.desired === 'released' || row?.desired === 'stopped') model.acknowledged(id, row.desired);
      else if (first) world.fail(`${operationId} was cancelled, and the desired state of ${id} is ${row?.desired}`);
    },
    refused: forget,
  };
}

export function saveImage(world: World, caller: Caller, id: string, key: string | null, name: string): Request {
  return {
    text: `save ${name} of ${id}`,
    caller,
    key,
    send: (control, idempotency) => control.images.save(caller, { instanceId: id, name }, idempotency),
    sent: () => {},
    answered(answer, first) {
      if (!hasId(answer)) return world.fail(`a save was answered with ${JSON.stringify(answer)}`);
      const rows = world.checker.rows(
        'select id from image where id = ? and "ownerId" = ?',
        answer.imageId,
        caller.accountId,
      );
      if (first && rows.length !== 1)
        world.fail(`the image ${answer.imageId} was acknowledged, and is not in the database`);
    },
    refused: () => {},
  };
}

export function deleteImage(world: World, caller: Caller, imageId: string, key: string | null): Request {
  return {
    text: `delete image ${imageId}`,
    caller,
    key,
    send: (control, idempotency) => control.images.delete(caller, { imageId }, idempotency),
    sent: () => {},
    answered() {
      const [row] = world.checker.rows<{ state: string }>('select state from image where id = ?', imageId);
      if (row && row.state !== 'Deleting') world.fail(`the image ${imageId} was deleted, and is ${row.state}`);
    },
    refused: () => {},
  };
}

interface OwnImage {
  id: string;
  ownerId: string;
  regionId: string;
  state: string;
}

/** Images saved from instances. */
export const ownImages = (world: World, ownerId?: string): OwnImage[] =>
  world.server
    ? world.checker
        .rows<OwnImage>('select id, "ownerId", "regionId", state from image where "fromInstanceId" is not null')
        .filter((row) => ownerId === undefined || row.ownerId === ownerId)
    : [];

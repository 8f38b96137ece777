import type { Caller } from '../../src/control/index.ts';
import type { Action, InstanceStatus } from '../../src/domain/compute/instance-states.ts';
import { sendRequest, type Request } from './client.ts';
import { instanceAction, createSshKey, launch, serialOf } from './requests.ts';
import { unfinished } from './convergence.ts';
import type { SimulatedRegion } from './simulated-region.ts';
import { callers } from './template.ts';
import type { World } from './world.ts';

/** Runs until `isTrue` holds; false on timeout or failure. */
export type Until = (isSo: () => boolean, withinMs: number) => Promise<boolean>;

/** Covers a root disk that is saved and pushed slowly. */
const SOON_MS = 240_000;
/** An aborted reconcile releases its row at once. */
const AT_ONCE_MS = 20_000;
/** A slow pull is in progress by then. */
const PULLS_BY_MS = 3_000;

const KEY_WITHIN_MS = 20_000;

const actions: readonly (readonly [Action, InstanceStatus])[] = [
  ['restart', 'Running'],
  ['stop', 'Stopped'],
  ['start', 'Running'],
  ['archive', 'Archived'],
  ['start', 'Running'],
  // The second archive must contain the changes since the first.
  ['archive', 'Archived'],
  ['start', 'Running'],
  ['terminate', 'Released'],
];

export async function runWithoutFaults(world: World, region: SimulatedRegion, until: Until): Promise<void> {
  const [caller] = callers;
  if (!caller) throw new Error('there are callers');
  const { schedule } = world;
  const { engine } = region;
  // Waits out a paused process.
  await until(() => schedule.nowMs >= (world.server?.pausedUntilMs ?? 0), Infinity);
  schedule.say(`without faults in ${region.region.name}`);
  const first = await launchNew(world, region, caller, until);
  if (first === null) return;
  // Usually during a reconcile, which must run again.
  schedule.later(schedule.between(0, KEY_WITHIN_MS), () =>
    sendRequest(world, { ...createSshKey(world, caller, `fair ${serialOf(world)}`), mustSucceed: true }),
  );
  if (!(await reaches(world, until, first, 'Running', SOON_MS))) return;
  const keyedByMs = schedule.nowMs + KEY_WITHIN_MS;
  if (!(await until(() => schedule.nowMs > keyedByMs && unfinished(world, region).length === 0, SOON_MS)))
    return world.fail(`without faults it does not converge: ${unfinished(world, region).join('; ')}`);
  for (const [action, status] of actions) {
    const sinceMs = schedule.nowMs;
    if (!(await succeed(world, until, instanceAction(world, caller, action, first, `fair ${serialOf(world)}`)))) return;
    if (!(await reaches(world, until, first, status, SOON_MS))) return;
    const container = [...engine.host.all(world.installation)].find(({ spec }) => spec.id === first);
    const runs = container?.state === 'running';
    if (runs !== (status === 'Running'))
      return world.fail(`after ${action} ${first} ${runs ? 'runs' : 'does not run'}`);
    if (action === 'restart' && (container?.startedAtMs ?? 0) < sinceMs)
      return world.fail(`${first} was restarted, and still has its earlier run`);
  }
  const second = await launchNew(world, region, caller, until);
  if (second === null) return;
  const pullsByMs = schedule.nowMs + PULLS_BY_MS;
  await until(() => schedule.nowMs >= pullsByMs, Infinity);
  if (!(await succeed(world, until, instanceAction(world, caller, 'terminate', second, `fair ${serialOf(world)}`))))
    return;
  const isClean = (): boolean => world.checker.instances.get(second)?.instance.observed.phase === 'Cleaned';
  if (!(await until(isClean, AT_ONCE_MS))) world.fail(`${second} was terminated, and is not Cleaned soon`);
}

/** Launches with an image that no engine has yet, and deletes the image. */
async function launchNew(world: World, region: SimulatedRegion, caller: Caller, until: Until): Promise<string | null> {
  const name = `fair.local/image:${serialOf(world)}`;
  let imageId = '';
  const plain = { caller, sent: () => {}, refused: () => {} };
  const create: Request = {
    ...plain,
    text: `create image ${name}`,
    key: `fair ${serialOf(world)}`,
    send: (control, idempotency) => control.images.create(caller, { name, ref: name }, idempotency),
    answered(answer) {
      if (typeof answer === 'object' && answer !== null && 'imageId' in answer) imageId = String(answer.imageId);
    },
  };
  if (!(await succeed(world, until, create))) return null;
  const known = new Set(world.model.instances.keys());
  const request = launch(world, caller, `fair ${serialOf(world)}`, { region, ownImage: imageId, ports: [80] });
  if (!(await succeed(world, until, request))) return null;
  const remove: Request = {
    ...plain,
    text: `delete image ${name}`,
    key: `fair ${serialOf(world)}`,
    send: (control, idempotency) => control.images.delete(caller, { imageId }, idempotency),
    answered: () => {},
  };
  if (!(await succeed(world, until, remove))) return null;
  return [...world.model.instances.keys()].find((id) => !known.has(id)) ?? null;
}

/** Sends a request that must succeed. */
async function succeed(world: World, until: Until, request: Request): Promise<boolean> {
  let answered = false;
  const heard: Request['answered'] = (...answer) => {
    answered = true;
    request.answered(...answer);
  };
  sendRequest(world, { ...request, mustSucceed: true, answered: heard });
  if (await until(() => answered, AT_ONCE_MS)) return true;
  world.fail(`nobody answers: ${request.text}`);
  return false;
}

async function reaches(
  world: World,
  until: Until,
  id: string,
  status: InstanceStatus,
  withinMs: number,
): Promise<boolean> {
  const observed = () => world.checker.instances.get(id)?.instance.observed;
  if (await until(() => observed()?.status === status, withinMs)) return true;
  const is = observed();
  world.fail(
    `without faults ${id} does not become ${status}: it is ${is?.status} ${is?.phase} ${is?.diagnosisMessage}`,
  );
  return false;
}

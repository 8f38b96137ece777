import type { Caller } from '../../src/control/index.ts';
import type { Action, InstanceStatus } from '../../src/domain/instance-states.ts';
import { ask, type Request } from './client.ts';
import { act, createSshKey, launch, serialOf } from './requests.ts';
import { unrest } from './convergence.ts';
import { callers } from './template.ts';
import type { World } from './world.ts';

/** Goes on until it is so; false when it is not within that time. */
export type Until = (isSo: () => boolean, withinMs: number) => Promise<boolean>;

/** Of a root disk that has to be kept and pushed, at the slowest. */
const SOON_MS = 240_000;
/** A pass that is aborted gives its row back at once. */
const AT_ONCE_MS = 20_000;
/** By then a pull is under way where pulls are slow. */
const PULLS_BY_MS = 3_000;

const KEY_WITHIN_MS = 20_000;

const life: readonly (readonly [Action, InstanceStatus])[] = [
  ['restart', 'Running'],
  ['stop', 'Stopped'],
  ['start', 'Running'],
  ['archive', 'Archived'],
  ['start', 'Running'],
  // What was changed since must be in the second one.
  ['archive', 'Archived'],
  ['start', 'Running'],
  ['terminate', 'Released'],
];

export async function fairWeather(world: World, until: Until): Promise<void> {
  const [caller] = callers;
  if (!caller) throw new Error('there are callers');
  const { schedule, engine } = world;
  // A server that is held up answers nobody.
  await until(() => schedule.nowMs >= (world.life?.heldUntilMs ?? 0), Infinity);
  schedule.say('fair weather');
  const first = await made(world, caller, until);
  if (first === null) return;
  // While a pass has it in hand, mostly: it must look again then.
  schedule.later(schedule.between(0, KEY_WITHIN_MS), () =>
    ask(world, { ...createSshKey(world, caller, `fair ${serialOf(world)}`), mustSucceed: true }),
  );
  if (!(await becomes(world, until, first, 'Running', SOON_MS))) return;
  const keyedByMs = schedule.nowMs + KEY_WITHIN_MS;
  if (!(await until(() => schedule.nowMs > keyedByMs && unrest(world).length === 0, SOON_MS)))
    return world.fail(`in fair weather it does not come to rest: ${unrest(world).join('; ')}`);
  for (const [action, status] of life) {
    const sinceMs = schedule.nowMs;
    if (!(await done(world, until, act(world, caller, action, first, `fair ${serialOf(world)}`)))) return;
    if (!(await becomes(world, until, first, status, SOON_MS))) return;
    const container = [...engine.host.all(world.installation)].find(({ spec }) => spec.id === first);
    const runs = container?.state === 'running';
    if (runs !== (status === 'Running'))
      return world.fail(`after ${action} ${first} ${runs ? 'runs' : 'does not run'}`);
    if (action === 'restart' && (container?.startedAtMs ?? 0) < sinceMs)
      return world.fail(`${first} was restarted, and runs on`);
  }
  const second = await made(world, caller, until);
  if (second === null) return;
  const pullsByMs = schedule.nowMs + PULLS_BY_MS;
  await until(() => schedule.nowMs >= pullsByMs, Infinity);
  if (!(await done(world, until, act(world, caller, 'terminate', second, `fair ${serialOf(world)}`)))) return;
  const isClean = (): boolean => world.checker.instances.get(second)?.instance.observed.phase === 'Cleaned';
  if (!(await until(isClean, AT_ONCE_MS))) world.fail(`${second} was terminated, and is not Cleaned soon`);
}

/** Of an image that is nowhere yet, and is nobody's any more once it is launched with. */
async function made(world: World, caller: Caller, until: Until): Promise<string | null> {
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
  if (!(await done(world, until, create))) return null;
  const known = new Set(world.model.instances.keys());
  const request = launch(world, caller, `fair ${serialOf(world)}`, { ownImage: imageId, ports: [80] });
  if (!(await done(world, until, request))) return null;
  const remove: Request = {
    ...plain,
    text: `delete image ${name}`,
    key: `fair ${serialOf(world)}`,
    send: (control, idempotency) => control.images.delete(caller, { imageId }, idempotency),
    answered: () => {},
  };
  if (!(await done(world, until, remove))) return null;
  return [...world.model.instances.keys()].find((id) => !known.has(id)) ?? null;
}

/** Asked, and answered with what was asked. */
async function done(world: World, until: Until, request: Request): Promise<boolean> {
  let answered = false;
  const heard: Request['answered'] = (...answer) => {
    answered = true;
    request.answered(...answer);
  };
  ask(world, { ...request, mustSucceed: true, answered: heard });
  if (await until(() => answered, AT_ONCE_MS)) return true;
  world.fail(`nobody answers: ${request.text}`);
  return false;
}

async function becomes(
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
    `in fair weather ${id} does not become ${status}: it is ${is?.status} ${is?.phase} ${is?.diagnosisMessage}`,
  );
  return false;
}

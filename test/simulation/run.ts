/**
 * One run: a world, its story with all that goes wrong in it, then a time in which nothing goes wrong any more and all must come to rest,
 * and at last everything is terminated and nothing may be left.
 */
import { createHash } from 'node:crypto';
import type { Limits } from '../../src/domain/instance-states.ts';
import type { Case } from './cases.ts';
import { ask } from './client.ts';
import { fairWeather } from './fault-free-run.ts';
import { drawnFate, kindly, type Fate } from './call-outcomes.ts';
import { lieFate, outageFate, planOutage } from './outages.ts';
import { deleteImage, ownImages } from './instance-requests.ts';
import { leftovers, unrest } from './convergence.ts';
import { act } from './requests.ts';
import { deleteSnapshot, deleteVolume } from './storage-requests.ts';
import type { Schedule } from './schedule.ts';
import { drawnStory, fixedStory } from './scenarios.ts';
import { callers } from './template.ts';
import type { Times } from '../../src/engines/simulated/host.ts';
import { World } from './world.ts';

export interface Outcome {
  /** What was wrong first; null: nothing. */
  wrong: string | null;
  trace: string;
  steps: number;
  engineCalls: string[];
  storageCalls: number;
  commits: number;
  statements: number;
  /** How much time went by in the world. */
  virtualMs: number;
}

/** The longest wait that is allowed: for an image that can not be had it is half an hour. */
const REST_WITHIN_MS = 3 * 3_600_000;
const LOOK_EVERY_MS = 2_000;
/** Sweeps come each half minute: who is at rest stays so. */
const STAYS_MS = 65_000;
const RESTART_MS = 10_000;
const QUICK_RESTART_MS = 40;
/** The fixed story is over soon, so that it can be told often. */
const quickTimes: Partial<Times> = {
  pull: [5, 40],
  create: [1, 5],
  start: [1, 5],
  ready: [5, 20],
  init: [5, 20],
  halt: [2, 20],
  save: [5, 30],
};
/** A lease runs out several times meanwhile, if nobody prolongs it. */
const farRegistry: Partial<Times> = { pull: [40_000, 100_000], save: [30_000, 60_000] };
/** Most worlds have less patience, so that less time has to go by until all is over. */
const impatient: Partial<Limits> = {
  imageDeadlineMs: 3 * 60_000,
  disksDeadlineMs: 2 * 60_000,
  readyDeadlineMs: 30_000,
  startDeadlineMs: 5 * 60_000,
  stopDeadlineMs: 60_000,
  copyDeadlineMs: 5 * 60_000,
};
const MOST_TASKS = 2_000_000;

const fixedSeed = 'the fixed story';

export async function run(what: Case, at: { folder: string; template: Uint8Array }): Promise<Outcome> {
  const seed = what.kind === 'seed' ? `seed ${what.seed}` : 'seed' in what ? `${fixedSeed} ${what.seed}` : fixedSeed;
  const world = new World({
    ...at,
    seed,
    fate: (schedule) => fateOf(what, schedule),
    pushes: (schedule) => what.kind === 'seed' && schedule.chance(0.2),
    // Mostly what it would remove in a day it removes at once: so what it must not is seen.
    orphans: (schedule) =>
      what.kind === 'seed' && schedule.chance(0.4)
        ? { action: 'stop', retentionMs: schedule.spread(60_000, 600_000) }
        : { action: 'delete', retentionMs: 0 },
    times: (schedule) => (what.kind !== 'seed' ? quickTimes : schedule.chance(0.15) ? farRegistry : {}),
    limits: (schedule) => (what.kind === 'seed' && schedule.chance(0.1) ? {} : impatient),
  });
  try {
    await tell(world, what);
    world.schedule.say(`the database is ${digest(world)}`);
  } finally {
    await world.stop();
  }
  return {
    wrong: world.wrong,
    trace: `${world.schedule.trace.join('\n')}\n`,
    ...world.counts(),
    engineCalls: world.engineCalls,
    steps: world.steps,
    virtualMs: world.schedule.nowMs,
  };
}

function fateOf(what: Case, schedule: Schedule): Fate {
  switch (what.kind) {
    case 'seed':
      return drawnFate(schedule);
    case 'crash':
      return { ...kindly, kills: (step) => step === what.step };
    case 'engine': {
      const ms = what.mode === 'late' || what.mode === 'slow' ? 600_000 : 5_000;
      return {
        ...kindly,
        engine: ({ nth }) => (nth === what.nth ? { mode: what.mode, ms, kind: 'unreachable' } : undefined),
      };
    }
    case 'storage':
      return { ...kindly, storage: ({ nth }) => (nth === what.nth ? { mode: what.mode, ms: 30_000 } : undefined) };
    case 'commit':
      return { ...kindly, commit: (nth) => (nth === what.nth ? what.mode : undefined) };
    case 'statement':
      return { ...kindly, statement: (nth) => nth === what.nth };
    case 'twice':
      return kindly;
    case 'outage':
      return outageFate(what, schedule);
    case 'lie':
      return lieFate(what, schedule);
    default:
      return what satisfies never;
  }
}

async function tell(world: World, what: Case): Promise<void> {
  const { schedule } = world;
  const endMs =
    what.kind === 'seed' ? drawnStory(world) : fixedStory(world, what.story, { twice: what.kind === 'twice' });
  if (what.kind === 'outage') planOutage(world, what);
  keepUp(world, what.kind === 'seed' ? RESTART_MS : QUICK_RESTART_MS);
  const lastMs = what.kind === 'outage' ? Math.max(endMs, what.atMs + what.forMs) : endMs;
  await until(world, () => schedule.nowMs >= lastMs);
  world.heal();
  if (!(await comesToRest(world, what.kind === 'seed'))) return;
  if (what.kind === 'outage' && (what.how === 'away' || what.how === 'silent' || what.how === 'flapping'))
    nothingFailed(world);
  world.model.adopt(world.checker.instances, world.checker.volumes, world.checker.snapshots);
  for (const [id, { ownerId, acknowledged }] of world.model.instances) {
    const caller = callers.find(({ accountId }) => accountId === ownerId);
    if (acknowledged !== 'released' && caller)
      ask(world, { ...act(world, caller, 'terminate', id, `end ${id}`), mustSucceed: true });
  }
  await until(world, () => unrest(world).length === 0, REST_WITHIN_MS);
  if (what.kind === 'seed') await fairWeather(world, (isSo, withinMs) => until(world, isSo, withinMs));
  for (const { id, ownerId } of ownImages(world)) {
    const caller = callers.find(({ accountId }) => accountId === ownerId);
    if (caller) ask(world, { ...deleteImage(world, caller, id, `end ${id}`), mustSucceed: true });
  }
  for (const [id, { ownerId, there }] of world.model.volumes) {
    const caller = callers.find(({ accountId }) => accountId === ownerId);
    if (there && caller) ask(world, { ...deleteVolume(world, caller, id, `end ${id}`), mustSucceed: true });
  }
  for (const [id, { ownerId, there }] of world.model.snapshots) {
    const caller = callers.find(({ accountId }) => accountId === ownerId);
    if (there && caller) ask(world, { ...deleteSnapshot(world, caller, id, `end ${id}`), mustSucceed: true });
  }
  // What a late call brought back is found by the sweep.
  if (await until(world, () => unrest(world).length + leftovers(world).length === 0, REST_WITHIN_MS)) return;
  if (world.wrong === null)
    world.fail(`after all was terminated: ${[...unrest(world), ...leftovers(world)].join('; ')}`);
}

/** What could only not be reached has not failed. The image that can't be had is no matter of the engine. */
function nothingFailed(world: World): void {
  for (const { row, instance } of world.checker.instances.values()) {
    const { status, diagnosisMessage } = instance.observed;
    if (instance.spec.image.ref.startsWith('berth.local/') && isFailure(status))
      world.fail(`${row.id} is ${status}, and the engine was only away: ${diagnosisMessage}`);
  }
}

const isFailure = (status: string): boolean => status === 'StartingFailed' || status === 'InitializationFailed';

/** Whoever looks after the server starts it again when it died, or when it says that it can't go on. */
function keepUp(world: World, withinMs: number): void {
  const { schedule } = world;
  const look = (): void => {
    if (!world.life) world.begin();
    else void world.life.healthy().then((healthy) => !healthy && world.life?.running && world.kill());
    // A server that is up is looked after now and then.
    schedule.later(schedule.between(1, world.life ? 10 * withinMs : withinMs), look);
  };
  schedule.later(0, look);
}

async function comesToRest(world: World, stays: boolean): Promise<boolean> {
  const { setBackMs } = world.wall;
  if (!(await until(world, () => unrest(world).length === 0, REST_WITHIN_MS + setBackMs))) {
    if (world.wrong === null) world.fail(`it does not come to rest: ${unrest(world).join('; ')}`);
    return false;
  }
  if (!stays) return true;
  const sinceMs = world.schedule.nowMs;
  await until(world, () => world.schedule.nowMs >= sinceMs + STAYS_MS);
  // Something may be looked at just now; what it was at rest before it is again.
  if (!(await until(world, () => unrest(world).length === 0, STAYS_MS)) && world.wrong === null)
    world.fail(`it does not stay at rest: ${unrest(world).join('; ')}`);
  return world.wrong === null;
}

/** Goes on until it is so; false when it is not within that time, or something is wrong. */
async function until(world: World, isSo: () => boolean, withinMs = Infinity): Promise<boolean> {
  const { schedule } = world;
  const endMs = schedule.nowMs + withinMs;
  let lookAtMs = schedule.nowMs;
  while (world.wrong === null) {
    const nextMs = schedule.nextAtMs();
    if (nextMs === null || schedule.done > MOST_TASKS) {
      world.fail(
        nextMs === null ? 'nothing will ever happen again' : `${MOST_TASKS} things have happened, and it goes on`,
      );
      return false;
    }
    if (nextMs >= lookAtMs) {
      if (isSo()) return true;
      if (schedule.nowMs > endMs) return false;
      lookAtMs = nextMs + (withinMs === Infinity ? 0 : LOOK_EVERY_MS);
    }
    await schedule.step();
  }
  return false;
}

/** All rows of all tables. */
function digest(world: World): string {
  const hash = createHash('sha256');
  if (!world.life) world.begin();
  for (const { name } of world.checker.rows<{ name: string }>(
    "select name from sqlite_schema where type = 'table' and name <> 'migration' order by name",
  ))
    for (const row of world.checker.rows(`select * from "${name}" order by 1, 2`)) hash.update(JSON.stringify(row));
  return hash.digest('hex').slice(0, 16);
}

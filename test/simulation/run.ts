/**
 * Runs one case: a scenario with faults, then convergence without faults, then deletion of
 * everything.
 */
import { createHash } from 'node:crypto';
import type { Limits } from '../../src/domain/compute/instance-states.ts';
import type { Case } from './cases.ts';
import { sendRequest } from './client.ts';
import { runWithoutFaults, type Until } from './fault-free-run.ts';
import { runDuringLoss } from './lost-region.ts';
import { offerAll } from './region-requests.ts';
import type { SimulatedRegion } from './simulated-region.ts';
import { drawFaultPlan, noFaults, type FaultPlan } from './call-outcomes.ts';
import { lieFaults, outageFaults, planOutage } from './outages.ts';
import { drawMoney } from './money.ts';
import { supply } from './money-requests.ts';
import { watchMoney } from './money-watch.ts';
import { deleteImage, ownImages } from './instance-requests.ts';
import { leftovers, unfinished } from './convergence.ts';
import { instanceAction } from './requests.ts';
import { deleteSnapshot, deleteVolume } from './storage-requests.ts';
import type { Schedule } from './schedule.ts';
import { drawScenario, fixedScenario } from './scenarios.ts';
import { callers, type Templates } from './template.ts';
import type { Times } from '../../src/engines/simulated/host.ts';
import { World } from './world.ts';

export interface Outcome {
  /** First violation, or null. */
  wrong: string | null;
  trace: string;
  steps: number;
  engineCalls: string[];
  storageCalls: number;
  commits: number;
  statements: number;
  virtualMs: number;
}

/** Longest allowed wait; a missing image takes half an hour. */
const CONVERGE_WITHIN_MS = 3 * 3_600_000;
const LOOK_EVERY_MS = 2_000;
/** Two sweeps: a converged world stays converged. */
const STABLE_MS = 65_000;
/** Edges of windows, reclaims, ends of money and late requests stop and start instances. */
const RESTS_WITHIN_MS = 30 * 60_000;
const RESTART_MS = 10_000;
const QUICK_RESTART_MS = 40;
/** Fixed scenarios run often, so they are short. */
const quickTimes: Partial<Times> = {
  pull: [5, 40],
  create: [1, 5],
  start: [1, 5],
  ready: [5, 20],
  init: [5, 20],
  halt: [2, 20],
  save: [5, 30],
};
/** Longer than several leases. */
const farRegistry: Partial<Times> = { pull: [40_000, 100_000], save: [30_000, 60_000] };
/** A single call of the engine outlasts heartbeats. */
const busyHost: Partial<Times> = { create: [2_000, 8_000], start: [2_000, 12_000] };
const hosts: readonly Partial<Times>[] = [farRegistry, busyHost];
/** Shorter deadlines save simulated time in most worlds. */
const impatient: Partial<Limits> = {
  imageDeadlineMs: 3 * 60_000,
  disksDeadlineMs: 2 * 60_000,
  readyDeadlineMs: 30_000,
  startDeadlineMs: 5 * 60_000,
  stopDeadlineMs: 60_000,
  copyDeadlineMs: 5 * 60_000,
};
const MOST_TASKS = 2_000_000;
/** Other seeds have one region. */
const TWO_REGIONS_EVERY = 4;

const fixedSeed = 'the fixed story';

type PlayedCase = Exclude<Case, { kind: 'takeover' }>;

export async function run(what: PlayedCase, at: { folder: string; templates: Templates }): Promise<Outcome> {
  const seed = what.kind === 'seed' ? `seed ${what.seed}` : 'seed' in what ? `${fixedSeed} ${what.seed}` : fixedSeed;
  const world = new World({
    ...at,
    seed,
    hasTwoRegions: what.kind === 'seed' && what.seed % TWO_REGIONS_EVERY === TWO_REGIONS_EVERY - 1,
    money: what.kind === 'seed' ? drawMoney(seed) : null,
    fate: (schedule) => faultPlanOf(what, schedule),
    pushes: (schedule) => what.kind === 'seed' && schedule.chance(0.2),
    // Mostly deletes orphans at once instead of after a day, which reveals wrong deletions.
    orphans: (schedule) =>
      what.kind === 'seed' && schedule.chance(0.4)
        ? { action: 'stop', retentionMs: schedule.spread(60_000, 600_000) }
        : { action: 'delete', retentionMs: 0 },
    times: (schedule) => (what.kind !== 'seed' ? quickTimes : schedule.chance(0.3) ? schedule.oneOf(hosts) : {}),
    limits: (schedule) => (what.kind === 'seed' && schedule.chance(0.1) ? {} : impatient),
  });
  try {
    await play(world, what);
    world.schedule.say(`the database is ${digest(world)}`);
  } finally {
    await world.stop();
  }
  return outcomeOf(world);
}

export const outcomeOf = (world: World): Outcome => ({
  wrong: world.violation,
  trace: `${world.schedule.trace.join('\n')}\n`,
  ...world.counts(),
  engineCalls: world.engineCalls,
  steps: world.steps,
  virtualMs: world.schedule.nowMs,
});

function faultPlanOf(what: PlayedCase, schedule: Schedule): FaultPlan {
  switch (what.kind) {
    case 'seed':
      return drawFaultPlan(schedule);
    case 'crash':
      return { ...noFaults, kills: (step) => step === what.step };
    case 'engine': {
      const ms = what.mode === 'late' || what.mode === 'slow' ? 600_000 : 5_000;
      return {
        ...noFaults,
        engine: ({ nth }) => (nth === what.nth ? { mode: what.mode, ms, kind: 'unreachable' } : undefined),
      };
    }
    case 'storage':
      return { ...noFaults, storage: ({ nth }) => (nth === what.nth ? { mode: what.mode, ms: 30_000 } : undefined) };
    case 'commit':
      return { ...noFaults, commit: (nth) => (nth === what.nth ? what.mode : undefined) };
    case 'statement':
      return { ...noFaults, statement: (nth) => nth === what.nth };
    case 'twice':
      return noFaults;
    case 'outage':
      return outageFaults(what, schedule);
    case 'lie':
      return lieFaults(what, schedule);
    default:
      return what satisfies never;
  }
}

async function play(world: World, what: PlayedCase): Promise<void> {
  const { schedule } = world;
  const endMs =
    what.kind === 'seed' ? drawScenario(world) : fixedScenario(world, what.story, { twice: what.kind === 'twice' });
  if (what.kind === 'outage') planOutage(world, what);
  supervise(world, what.kind === 'seed' ? RESTART_MS : QUICK_RESTART_MS);
  if (world.money) watchMoney(world);
  const lastMs = what.kind === 'outage' ? Math.max(endMs, what.atMs + what.forMs) : endMs;
  await until(world, () => schedule.nowMs >= lastMs);
  world.heal();
  for (const request of world.regions.length > 1 ? offerAll(world) : []) sendRequest(world, request);
  if (!(await converges(world, what.kind === 'seed'))) return;
  if (what.kind === 'outage' && (what.how === 'away' || what.how === 'silent' || what.how === 'flapping'))
    checkNothingFailed(world);
  world.model.adopt(world.checker.instances, world.checker.volumes, world.checker.snapshots);
  const lost = world.regions.length > 1 ? schedule.oneOf(world.regions) : undefined;
  const sound = world.regions.filter((one) => one !== lost);
  for (const one of sound) terminateAll(world, one);
  await until(world, () => unfinished(world).length === 0, CONVERGE_WITHIN_MS);
  if (world.money) for (const request of callers.flatMap(supply)) sendRequest(world, { ...request, mustSucceed: true });
  if (world.money) await until(world, () => unfinished(world).length === 0, CONVERGE_WITHIN_MS);
  const untilSo: Until = (isSo, withinMs) => until(world, isSo, withinMs);
  const [only] = world.regions;
  if (lost) {
    await runDuringLoss(world, lost, untilSo);
    world.model.adopt(world.checker.instances, world.checker.volumes, world.checker.snapshots);
    terminateAll(world, lost);
    await until(world, () => unfinished(world).length === 0, CONVERGE_WITHIN_MS);
  } else if (what.kind === 'seed' && only) await runWithoutFaults(world, only, untilSo);
  for (const { id, ownerId } of ownImages(world)) {
    const caller = callers.find(({ accountId }) => accountId === ownerId);
    if (caller) sendRequest(world, { ...deleteImage(world, caller, id, `end ${id}`), mustSucceed: true });
  }
  for (const [id, { ownerId, there }] of world.model.volumes) {
    const caller = callers.find(({ accountId }) => accountId === ownerId);
    if (there && caller) sendRequest(world, { ...deleteVolume(world, caller, id, `end ${id}`), mustSucceed: true });
  }
  for (const [id, { ownerId, there }] of world.model.snapshots) {
    const caller = callers.find(({ accountId }) => accountId === ownerId);
    if (there && caller) sendRequest(world, { ...deleteSnapshot(world, caller, id, `end ${id}`), mustSucceed: true });
  }
  // The sweep finds objects that a late call created.
  if (await until(world, () => unfinished(world).length + leftovers(world).length === 0, CONVERGE_WITHIN_MS)) return;
  if (world.violation === null)
    world.fail(`after all was terminated: ${[...unfinished(world), ...leftovers(world)].join('; ')}`);
}

function terminateAll(world: World, { region }: SimulatedRegion): void {
  for (const [id, { ownerId, acknowledged }] of world.model.instances) {
    const caller = callers.find(({ accountId }) => accountId === ownerId);
    if (acknowledged === 'released' || !caller) continue;
    if (world.checker.instances.get(id)?.row.regionId === region.id)
      sendRequest(world, { ...instanceAction(world, caller, 'terminate', id, `end ${id}`), mustSucceed: true });
  }
}

/** An outage alone must fail nothing. A missing image is no outage. */
function checkNothingFailed(world: World): void {
  for (const { row, instance } of world.checker.instances.values()) {
    const { status, diagnosisMessage } = instance.observed;
    if (instance.spec.image.ref.startsWith('berth.local/') && isFailure(status))
      world.fail(`${row.id} is ${status}, and the engine was only away: ${diagnosisMessage}`);
  }
}

const isFailure = (status: string): boolean => status === 'StartingFailed' || status === 'InitializationFailed';

/** The supervisor: starts the server after a crash, and restarts it when unhealthy. */
function supervise(world: World, withinMs: number): void {
  const { schedule } = world;
  const look = (): void => {
    if (!world.server) world.startServer();
    else void world.server.healthy().then((healthy) => !healthy && world.server?.running && world.kill());
    schedule.later(schedule.between(1, world.server ? 10 * withinMs : withinMs), look);
  };
  schedule.later(0, look);
}

async function converges(world: World, stays: boolean): Promise<boolean> {
  const { setBackMs } = world.wallClock;
  if (!(await until(world, () => unfinished(world).length === 0, CONVERGE_WITHIN_MS + setBackMs))) {
    if (world.violation === null) world.fail(`it does not converge: ${unfinished(world).join('; ')}`);
    return false;
  }
  if (!stays) return true;
  const sinceMs = world.schedule.nowMs;
  await until(world, () => world.schedule.nowMs >= sinceMs + STABLE_MS);
  // A periodic reconcile may be in progress, or a launch of a late request; it must converge again.
  if (!(await until(world, () => unfinished(world).length === 0, RESTS_WITHIN_MS)) && world.violation === null)
    world.fail(`it does not stay converged: ${unfinished(world).join('; ')}`);
  return world.violation === null;
}

/** Runs until `isTrue` holds; false on timeout or violation. */
async function until(world: World, isSo: () => boolean, withinMs = Infinity): Promise<boolean> {
  const { schedule } = world;
  const endMs = schedule.nowMs + withinMs;
  let lookAtMs = schedule.nowMs;
  while (world.violation === null) {
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

function digest(world: World): string {
  const hash = createHash('sha256');
  if (!world.server) world.startServer();
  for (const { name } of world.checker.rows<{ name: string }>(
    "select name from sqlite_schema where type = 'table' and name <> 'migration' order by name",
  ))
    for (const row of world.checker.rows(`select * from "${name}" order by 1, 2`)) hash.update(JSON.stringify(row));
  return hash.digest('hex').slice(0, 16);
}

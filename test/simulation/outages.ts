/** Outages and lies of the engine during a fixed scenario. */
import type { Case } from './cases.ts';
import { noFaults, type EngineCall, type FaultPlan, type EngineFaultChoice } from './call-outcomes.ts';
import type { Schedule } from './schedule.ts';
import type { World } from './world.ts';

type OutageCase = Extract<Case, { kind: 'outage' }>;
type LieCase = Extract<Case, { kind: 'lie' }>;

const FLAP_MS = 3_000;

/** `silent`: calls get no answer. */
export function outageFaults({ how, atMs, forMs }: OutageCase, schedule: Schedule): FaultPlan {
  if (how !== 'silent') return noFaults;
  const silent: EngineFaultChoice = { mode: 'dropped', ms: 0, kind: 'unreachable' };
  return { ...noFaults, engine: () => (schedule.nowMs >= atMs && schedule.nowMs < atMs + forMs ? silent : undefined) };
}

export function planOutage(world: World, { how, atMs, forMs }: OutageCase): void {
  const { schedule } = world;
  const { host } = world.anyRegion().engine;
  const memory = host.saveState();
  schedule.later(atMs, () => {
    if (how === 'silent') return;
    schedule.say(`the engine is ${how} for ${forMs} ms`);
    host.goAway(forMs);
    if (how === 'rebooted') void host.reboot();
    if (how === 'emptied') void host.forgetAll();
    if (how === 'restored') void host.restoreState(memory);
    if (how !== 'flapping') return;
    for (let awayMs = 0; awayMs < forMs; awayMs += 2 * FLAP_MS) schedule.later(awayMs, () => host.goAway(FLAP_MS));
  });
}

const SHARE = 0.5;

/** Half of the calls of a kind get a false answer. */
export function lieFaults({ how }: LieCase, schedule: Schedule): FaultPlan {
  const lied: Record<LieCase['how'], readonly EngineCall['verb'][]> = {
    runs: ['observe'],
    gone: ['destroy'],
    done: ['ensure', 'halt', 'ensureImage'],
    empty: ['listOwned', 'logs'],
    another: ['observe', 'listOwned'],
    foreign: ['listOwned'],
  };
  const mode = how === 'another' || how === 'foreign' ? how : 'lying';
  return {
    ...noFaults,
    engine: ({ verb }) =>
      lied[how].includes(verb) && schedule.chance(SHARE) ? { mode, ms: 0, kind: 'unreachable' } : undefined,
  };
}

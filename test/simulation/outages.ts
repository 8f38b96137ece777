/** Outages and lies that are tried one by one, over the fixed story. */
import type { Case } from './cases.ts';
import { kindly, type EngineCall, type Fate, type Mishap } from './call-outcomes.ts';
import type { Schedule } from './schedule.ts';
import type { World } from './world.ts';

type OutageCase = Extract<Case, { kind: 'outage' }>;
type LieCase = Extract<Case, { kind: 'lie' }>;

const FLAP_MS = 3_000;

/** It takes calls and never answers. */
export function outageFate({ how, atMs, forMs }: OutageCase, schedule: Schedule): Fate {
  if (how !== 'silent') return kindly;
  const silent: Mishap = { mode: 'dropped', ms: 0, kind: 'unreachable' };
  return { ...kindly, engine: () => (schedule.nowMs >= atMs && schedule.nowMs < atMs + forMs ? silent : undefined) };
}

export function planOutage({ schedule, engine: { host } }: World, { how, atMs, forMs }: OutageCase): void {
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

/** For the whole of the story each second call of the kind gets such an answer. */
export function lieFate({ how }: LieCase, schedule: Schedule): Fate {
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
    ...kindly,
    engine: ({ verb }) =>
      lied[how].includes(verb) && schedule.chance(SHARE) ? { mode, ms: 0, kind: 'unreachable' } : undefined,
  };
}

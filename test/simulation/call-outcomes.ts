/** What may go wrong in a simulated world, and who decides it: a seed, or a test that wants one thing at one place. */
import type { FaultKind } from '../../src/domain/engine-fault.ts';
import { faultKinds } from '../../src/domain/engine-fault.ts';
import type { Verb } from '../../src/engines/simulated/faults.ts';
import type { Schedule } from './schedule.ts';

export const mishapModes = [
  'slow', // it reaches the engine that much later, whether or not anybody waits for it by then
  'late', // it takes effect, and the answer comes that much later
  'lost', // it takes effect, and no answer comes
  'dropped', // it never reaches the engine, and no answer comes
  'failBefore',
  'failAfter',
  'halfway', // created and not started, stopped and not removed
  'lying', // success, and nothing was done
  'garbage', // it takes effect, and the answer is not understood
  'twice', // it takes effect again, that much later
  'another', // what is answered is of another instance: ids that nobody asked about
  'foreign', // beside what there is, things are told that are not ours
] as const;
export type MishapMode = (typeof mishapModes)[number];

export interface Mishap {
  mode: MishapMode;
  ms: number;
  kind: FaultKind;
}

export interface EngineCall {
  verb: Verb;
  about: string;
  /** Counts all calls of the run, from 1. */
  nth: number;
}

export interface StorageCall {
  verb: 'create' | 'grow' | 'mount' | 'unmount' | 'observe' | 'usage' | 'destroy';
  about: string;
  nth: number;
}

export const storageModes = ['late', 'failBefore', 'failAfter', 'unknown'] as const;
export interface StorageMishap {
  mode: (typeof storageModes)[number];
  ms: number;
}

/** `full`: the disk is, nothing is written. `io`: the sync failed, and whether it is written (`ioDone`) nobody can tell. */
export type CommitMishap = 'full' | 'io' | 'ioDone';

export interface Fate {
  /** Whether the server is killed here. Steps are counted from 1. */
  kills(step: number): boolean;
  engine(call: EngineCall): Mishap | undefined;
  storage(call: StorageCall): StorageMishap | undefined;
  commit(nth: number): CommitMishap | undefined;
  /** Whether this changing statement finds no room on the disk. */
  statement(nth: number): boolean;
  hint(): 'lost' | 'doubled' | undefined;
}

export const kindly: Fate = {
  kills: () => false,
  engine: () => undefined,
  storage: () => undefined,
  commit: () => undefined,
  statement: () => false,
  hint: () => undefined,
};

/** Each seed has its own mix: what is common in one never happens in another, so that rare meetings come about somewhere. */
export function drawnFate(schedule: Schedule): Fate {
  const rate = (never: number, from: number, to: number): number =>
    schedule.chance(never) ? 0 : from * (to / from) ** schedule.random();
  const kills = rate(0.3, 1 / 3_000, 1 / 60);
  const engine = rate(0.25, 0.003, 0.25);
  const storage = rate(0.4, 0.003, 0.2);
  const commit = rate(0.6, 0.001, 0.03);
  const statement = rate(0.6, 0.0003, 0.01);
  const hint = rate(0.5, 0.05, 1);
  const modes = mishapModes.filter(() => schedule.chance(0.6));
  const longestMs = schedule.spread(1_000, 1_200_000);
  return {
    kills: () => schedule.chance(kills),
    engine: () =>
      modes.length > 0 && schedule.chance(engine)
        ? { mode: schedule.oneOf(modes), ms: schedule.spread(1, longestMs), kind: schedule.oneOf(faultKinds) }
        : undefined,
    storage: () =>
      schedule.chance(storage) ? { mode: schedule.oneOf(storageModes), ms: schedule.spread(1, longestMs) } : undefined,
    commit: () => (schedule.chance(commit) ? schedule.oneOf(['full', 'full', 'io', 'ioDone'] as const) : undefined),
    statement: () => schedule.chance(statement),
    hint: () => (schedule.chance(hint) ? schedule.oneOf(['lost', 'doubled'] as const) : undefined),
  };
}

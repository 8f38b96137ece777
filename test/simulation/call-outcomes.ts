/** Faults of a simulated world, drawn from a seed or chosen by a test. */
import type { FaultKind } from '../../src/domain/regions/engine-fault.ts';
import { faultKinds } from '../../src/domain/regions/engine-fault.ts';
import type { Verb } from '../../src/engines/simulated/injected-faults.ts';
import type { Schedule } from './schedule.ts';

export const engineFaultModes = [
  'slow', // reaches the engine late, even after the caller gave up
  'late', // takes effect, with a late answer
  'lost', // takes effect, without an answer
  'dropped', // neither effect nor answer
  'failBefore',
  'failAfter',
  'halfway', // created but not started; stopped but not removed
  'lying', // success without effect
  'garbage', // takes effect, with a malformed answer
  'twice', // takes effect again later
  'another', // answers with the ids of another instance
  'foreign', // adds foreign objects to the answer
] as const;
export type EngineFaultMode = (typeof engineFaultModes)[number];

export interface EngineFaultChoice {
  mode: EngineFaultMode;
  ms: number;
  kind: FaultKind;
}

export interface EngineCall {
  verb: Verb;
  about: string;
  /** Position among all engine calls of the run, from 1. */
  nth: number;
}

export interface StorageCall {
  verb: 'create' | 'grow' | 'mount' | 'unmount' | 'observe' | 'usage' | 'destroy';
  about: string;
  nth: number;
}

export const storageFaultModes = ['late', 'failBefore', 'failAfter', 'unknown'] as const;
export interface StorageFaultChoice {
  mode: (typeof storageFaultModes)[number];
  ms: number;
}

/**
 * `full`: disk full, nothing is written. `io`: sync failed, not durable; `ioDone`: failed but
 * durable.
 */
export type CommitFault = 'full' | 'io' | 'ioDone';

export interface FaultPlan {
  /** Steps are counted from 1. */
  kills(step: number): boolean;
  engine(call: EngineCall): EngineFaultChoice | undefined;
  storage(call: StorageCall): StorageFaultChoice | undefined;
  commit(nth: number): CommitFault | undefined;
  /** Fails a changing statement with a full disk. */
  statement(nth: number): boolean;
  hint(): 'lost' | 'doubled' | undefined;
}

export const noFaults: FaultPlan = {
  kills: () => false,
  engine: () => undefined,
  storage: () => undefined,
  commit: () => undefined,
  statement: () => false,
  hint: () => undefined,
};

/** Each seed has its own mix of fault rates, so that rare combinations occur. */
export function drawFaultPlan(schedule: Schedule): FaultPlan {
  const rate = (never: number, from: number, to: number): number =>
    schedule.chance(never) ? 0 : from * (to / from) ** schedule.random();
  const kills = rate(0.3, 1 / 3_000, 1 / 60);
  const engine = rate(0.25, 0.003, 0.25);
  const storage = rate(0.4, 0.003, 0.2);
  const commit = rate(0.6, 0.001, 0.03);
  const statement = rate(0.6, 0.0003, 0.01);
  const hint = rate(0.5, 0.05, 1);
  const modes = engineFaultModes.filter(() => schedule.chance(0.6));
  const longestMs = schedule.spread(1_000, 1_200_000);
  return {
    kills: () => schedule.chance(kills),
    engine: () =>
      modes.length > 0 && schedule.chance(engine)
        ? { mode: schedule.oneOf(modes), ms: schedule.spread(1, longestMs), kind: schedule.oneOf(faultKinds) }
        : undefined,
    storage: () =>
      schedule.chance(storage)
        ? { mode: schedule.oneOf(storageFaultModes), ms: schedule.spread(1, longestMs) }
        : undefined,
    commit: () => (schedule.chance(commit) ? schedule.oneOf(['full', 'full', 'io', 'ioDone'] as const) : undefined),
    statement: () => schedule.chance(statement),
    hint: () => (schedule.chance(hint) ? schedule.oneOf(['lost', 'doubled'] as const) : undefined),
  };
}

/**
 * A region of a world: an engine and a storage that outlive the server. Both may be lost for a
 * while, with their answers under way.
 */
import type { Region } from '../../src/domain/regions/catalog.ts';
import { makeSimulatedEngine, type SimulatedEngine } from '../../src/engines/simulated/simulated.ts';
import type { Times } from '../../src/engines/simulated/host.ts';
import type { Checker } from './checker.ts';
import { makePreconditions, type Preconditions } from './preconditions.ts';
import type { Schedule } from './schedule.ts';
import { makeMemoryStorage, type MemoryStorage } from './storage.ts';
import { capacity, ids } from './template.ts';

/** `away`: calls fail at once. `silent`: calls get no answer. */
export const losses = ['away', 'silent'] as const;
export type Loss = (typeof losses)[number];

/** Calls that background tasks repeat. */
export type Look = 'probe' | 'sweep' | 'listDisks' | 'listMounted' | 'space';

const slowTimes: Partial<Times> = {
  pull: [20, 4_000],
  create: [2, 60],
  start: [2, 200],
  ready: [5, 1_500],
  init: [5, 900],
  halt: [2, 3_000],
  save: [10, 9_000],
};

export interface SimulatedRegionOptions {
  region: Region;
  schedule: Schedule;
  times: Partial<Times>;
  /** Archives go to a registry. */
  pushes: boolean;
  checker: Checker;
  onWrong: (text: string) => void;
}

export class SimulatedRegion {
  readonly region: Region;
  readonly storage: MemoryStorage = makeMemoryStorage();
  readonly engine: SimulatedEngine;
  readonly preconditions: Preconditions;
  /** Mode of the next call, by verb and subject; set just before the call. */
  readonly armed = new Map<string, 'halfway' | 'lying'>();
  /** Begin of the last call of each kind that was answered. */
  readonly lookedAtMs = new Map<string, number>();
  lost: Loss | null = null;
  readonly #schedule: Schedule;

  constructor({ region, schedule, times, pushes, checker, onWrong }: SimulatedRegionOptions) {
    this.region = region;
    this.#schedule = schedule;
    this.engine = makeSimulatedEngine({
      installation: ids.installation,
      capacity,
      random: schedule.random,
      times: { ...slowTimes, ...times },
      clock: {
        now: () => schedule.nowMs,
        sleep: (ms, signal) =>
          new Promise((resolve, reject) => {
            const giveUp = (): void => {
              callOff();
              reject(signal.reason);
            };
            if (signal.aborted) return reject(signal.reason);
            const callOff = schedule.later(ms, () => {
              signal.removeEventListener('abort', giveUp);
              resolve();
            });
            signal.addEventListener('abort', giveUp, { once: true });
          }),
      },
      faults: ({ verb, about }) => {
        const mode = this.armed.get(`${verb} ${about}`);
        this.armed.delete(`${verb} ${about}`);
        return mode && { mode };
      },
    });
    const { engine } = this;
    this.preconditions = makePreconditions({ region, engine, pushes }, checker, onWrong);
  }

  /** Notes the look once it is answered. */
  async looked<T>(look: Look, answer: Promise<T>): Promise<T> {
    const askedAtMs = this.#schedule.nowMs;
    const answered = await answer;
    this.lookedAtMs.set(look, askedAtMs);
    return answered;
  }

  lose(how: Loss): void {
    this.#schedule.say(`region ${this.region.name} is lost: ${how}`);
    this.lost = how;
  }

  find(): void {
    if (this.lost === null) return;
    this.#schedule.say(`region ${this.region.name} is back`);
    this.lost = null;
  }
}

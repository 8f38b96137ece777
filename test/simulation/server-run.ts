/**
 * A run of the simulated server: real control and store, with all I/O intercepted. A kill leaves
 * pending calls unanswered and drops new ones; the next run has the same disk, engine and storage.
 */
import { makeControl, type RunningControl } from '../../src/main/control.ts';
import { makeRegions, type RegionDrivers, type Regions } from '../../src/control/kernel/regions.ts';
import type { Time } from '../../src/control/kernel/time.ts';
import type { Limits } from '../../src/domain/compute/instance-states.ts';
import { migrations } from '../../src/store/open.ts';
import type { StoreScheduler } from '../../src/store/db/group-commit.ts';
import { openSqlite } from '../../src/store/db/sqlite.ts';
import type { Store } from '../../src/store/store.ts';
import { makeControlDeps, makeDrivers } from '../fixtures/control-deps.ts';
import { faultyEngine } from './faulty-engine.ts';
import { faultyStorage } from './faulty-storage.ts';
import type { SimulatedRegion } from './simulated-region.ts';
import { ids, nodePortRange, poolGB } from './template.ts';
import type { World } from './world.ts';

const never = <T>(): Promise<T> => new Promise<T>(() => {});

export class ServerRun {
  readonly world: World;
  readonly number: number;
  alive = true;
  /** Pauses the process, like a swapping machine or a debugger. */
  pausedUntilMs = 0;
  running: RunningControl | null = null;
  regions: Regions | null = null;
  /** Aborted by the kill: connections break. */
  readonly ended = new AbortController();

  constructor(world: World, number: number) {
    this.world = world;
    this.number = number;
  }

  /** Counts a step. False when the process is dead or dies here. */
  step(text: string): boolean {
    return this.alive && this.world.step(this, text) && this.alive;
  }

  /** Delivers a callback after `ms`, if the process still runs. */
  later(ms: number, fn: () => void): () => void {
    const { schedule } = this.world;
    let callOff = (): void => {};
    const arrive = (): void => {
      if (!this.alive) return;
      if (schedule.nowMs < this.pausedUntilMs) callOff = schedule.later(this.pausedUntilMs - schedule.nowMs, arrive);
      else fn();
    };
    callOff = schedule.later(ms, arrive);
    return () => callOff();
  }

  async start(limits: Partial<Limits>): Promise<void> {
    const { world } = this;
    const { schedule, disk } = world;
    const log = {
      debug: () => {},
      info: () => {},
      warn: (facts: object, text: string) => this.#tell('warns', facts, text),
      error: (facts: object, text: string) => this.#tell('says', facts, text),
    };
    disk.watch(world.watcherOf(this));
    const store = await openSqlite({ file: disk.file, migrations, log, scheduler: this.#scheduler() });
    if (!this.alive) return;
    disk.opened();
    this.regions = makeRegions(world.regions.map((region) => this.#driversOf(region)));
    const running = makeControl(
      makeControlDeps({
        store: this.#gated(store),
        regions: this.regions,
        openRegion: async ({ id }) => this.#driversOf(world.regionOf(id)),
        log,
        time: this.#time(),
        random: schedule.random,
        randomUuid: () => schedule.uuid(),
        randomBytes: (size) => schedule.bytes(size),
        issuer: ids.installation,
        limits,
        orphans: world.orphans,
        ...world.money,
        alone: true,
      }),
    );
    await running.start();
    this.running = running;
  }

  #driversOf(region: SimulatedRegion): RegionDrivers {
    return makeDrivers({
      regionId: region.region.id,
      engine: faultyEngine(this, region),
      pool: { storage: faultyStorage(this, region), sizeGB: poolGB },
      nodePortRange,
      archivePushed: this.world.pushes,
    });
  }

  kill(): void {
    this.alive = false;
    this.running = null;
    this.ended.abort();
  }

  async healthy(): Promise<boolean> {
    return (await this.running?.control.health())?.ready ?? false;
  }

  #tell(how: string, facts: object, text: string): void {
    if (!this.alive) return;
    const error = 'err' in facts && facts.err instanceof Error ? `: ${facts.err.message}` : '';
    this.world.schedule.say(`${how}: ${text}${error}`);
  }

  #gated(store: Store): Store {
    return {
      ...store,
      write: (work) => {
        if (!this.alive) return never();
        return store.write(work).then(
          (answer) => (this.alive ? answer : never()),
          (error: unknown) => (this.alive ? Promise.reject(error) : never()),
        );
      },
    };
  }

  #scheduler(): StoreScheduler {
    const { schedule } = this.world;
    return {
      defer: (fn) => void this.later(schedule.between(0, 2), fn),
      // A group closes after 2 ms, sometimes after its first operation.
      elapsed: () => schedule.nowMs + schedule.between(0, 3),
      after: (ms, fn) => this.later(ms, fn),
      threads: false,
    };
  }

  #time(): Time {
    const { schedule, wallClock } = this.world;
    const later = (ms: number, fn: () => void): (() => void) =>
      this.later(ms, () => {
        if (this.step('timer')) fn();
      });
    return {
      now: () => wallClock.now(),
      elapsed: () => schedule.nowMs,
      sleep: (ms, signal) =>
        new Promise((resolve, reject) => {
          const giveUp = (): void => {
            callOff();
            reject(signal.reason);
          };
          if (signal.aborted) return reject(signal.reason);
          const callOff = later(ms, () => {
            signal.removeEventListener('abort', giveUp);
            resolve();
          });
          signal.addEventListener('abort', giveUp, { once: true });
        }),
      deadline: (ms) => {
        const controller = new AbortController();
        this.later(ms, () => controller.abort(new DOMException('it took too long', 'TimeoutError')));
        return controller.signal;
      },
      after: later,
      every: (ms, fn) => {
        let callOff = (): void => {};
        const again = (): void => {
          callOff = later(ms, () => {
            again();
            fn();
          });
        };
        again();
        return () => callOff();
      },
    };
  }
}

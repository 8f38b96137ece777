/**
 * A simulated world: one or two regions and a disk that last, and a server that is killed and
 * restarted. Each commit, call, answer and timer is a step. The server may die at any of them;
 * invariants are checked after each.
 */
import type { Verb } from '../../src/engines/simulated/injected-faults.ts';
import type { Times } from '../../src/engines/simulated/host.ts';
import type { Limits } from '../../src/domain/compute/instance-states.ts';
import { DEFAULT_SPOT_GRACE_MS } from '../../src/domain/compute/spot.ts';
import type { OrphanPolicy } from '../../src/domain/compute/orphan.ts';
import { Checker, LISTED_FOR_MS } from './checker.ts';
import { Disk, type Watcher } from './disk.ts';
import {
  noFaults,
  type FaultPlan,
  type EngineFaultChoice,
  type StorageCall,
  type StorageFaultChoice,
} from './call-outcomes.ts';
import { ServerRun } from './server-run.ts';
import { Model } from './model.ts';
import type { MoneySettings } from './money.ts';
import { Schedule } from './schedule.ts';
import { SimulatedRegion } from './simulated-region.ts';
import { ids, regions, type Templates } from './template.ts';
import { WallClock } from './wall-clock.ts';

/** Unwinds the stack of a killed process. */
class Killed extends Error {}

/** Charging looks for a step of the clock each minute; a busy server takes longer. */
const STEP_UNSEEN_MS = 180_000;
const SQLITE_FULL = 13;
const SQLITE_IOERR_FSYNC = 1034;
const failure = (errcode: number, text: string): Error => Object.assign(new Error(text), { errcode });

export class World {
  readonly schedule: Schedule;
  readonly wallClock: WallClock;
  readonly regions: readonly SimulatedRegion[];
  readonly disk: Disk;
  readonly model = new Model();
  readonly checker = new Checker(this.model, () => ({
    nowMs: this.schedule.nowMs,
    sweptAtMs: (id) => this.regionOf(id).lookedAtMs.get('sweep') ?? 0,
    unseenStepsMs: this.#unseenStepsMs,
    spotGraceMs: this.money?.spotGraceMs ?? DEFAULT_SPOT_GRACE_MS,
  }));
  /**
   * Instances with a false `ensure` answer, or a late duplicate of an old one: a running container
   * hides both.
   */
  readonly falselyEnsured = new Set<string>();
  /** First violation; ends the run. */
  violation: string | null = null;
  /** Host events have stopped. */
  hasHealed = false;
  readonly installation = ids.installation;
  steps = 0;
  server: ServerRun | null = null;
  serverRuns = 0;
  faults: FaultPlan;
  /** Archives go to a registry. */
  readonly pushes: boolean;
  readonly orphans: OrphanPolicy;
  limits: Partial<Limits>;
  /** Null: instances are launched perHour alone, and no money ends. */
  readonly money: MoneySettings | null;
  /** Verb of each engine call, with the state of its instance. */
  readonly engineCalls: string[] = [];
  /** Steps of the clock that the current server may not have seen. */
  #unseenStepsMs = 0;
  #leadMs = 0;
  #storageCalls = 0;
  #commits = 0;
  #statements = 0;

  constructor(options: {
    seed: string;
    folder: string;
    templates: Templates;
    /** Default: one. */
    hasTwoRegions?: boolean;
    fate: (schedule: Schedule) => FaultPlan;
    limits?: (schedule: Schedule) => Partial<Limits>;
    orphans?: (schedule: Schedule) => OrphanPolicy;
    pushes?: (schedule: Schedule) => boolean;
    money?: MoneySettings | null;
    times?: (schedule: Schedule) => Partial<Times>;
  }) {
    const schedule = new Schedule(options.seed);
    this.schedule = schedule;
    this.wallClock = new WallClock(schedule);
    const { hasTwoRegions = false, templates } = options;
    this.disk = new Disk(options.folder, templates[hasTwoRegions ? 1 : 0]);
    this.faults = options.fate(schedule);
    this.pushes = options.pushes?.(schedule) ?? false;
    this.orphans = options.orphans?.(schedule) ?? { action: 'delete', retentionMs: 0 };
    this.limits = options.limits?.(schedule) ?? {};
    this.money = options.money ?? null;
    const times = options.times?.(schedule) ?? {};
    const { pushes, checker } = this;
    const onWrong = (text: string): void => this.fail(text);
    const [first, second] = regions;
    this.regions = (hasTwoRegions ? [first, second] : [first]).map(
      (region) => new SimulatedRegion({ region, schedule, times, pushes, checker, onWrong }),
    );
  }

  regionOf(id: string): SimulatedRegion {
    const found = this.regions.find(({ region }) => region.id === id);
    if (!found) throw new Error(`there is no region ${id}`);
    return found;
  }

  /** Draws nothing where there is one. */
  anyRegion(): SimulatedRegion {
    const [only, ...others] = this.regions;
    return only && others.length === 0 ? only : this.schedule.oneOf(this.regions);
  }

  fail(text: string): void {
    if (this.violation !== null) return;
    this.schedule.say(`WRONG: ${text}`);
    this.violation = text;
  }

  /** Counts a step. False when the server is dead afterwards. */
  step(life: ServerRun, text: string): boolean {
    if (life !== this.server || !life.alive) return false;
    this.steps += 1;
    this.schedule.say(`${this.steps} ${text}`);
    if (!this.faults.kills(this.steps)) return true;
    this.kill();
    return false;
  }

  kill(): void {
    const { server } = this;
    if (!server) return;
    this.schedule.say(`life ${server.number} is killed`);
    server.kill();
    this.server = null;
    this.checker.close();
    this.schedule.later(0, this.disk.crash());
  }

  /** Starts a server run unless one is active. */
  startServer(): void {
    if (this.server) return;
    const life = new ServerRun(this, ++this.serverRuns);
    const leadMs = this.wallClock.now() - this.schedule.nowMs;
    if (this.serverRuns > 1) this.#unseenStepsMs += Math.abs(leadMs - this.#leadMs);
    this.#leadMs = leadMs;
    this.server = life;
    this.schedule.say(`life ${life.number} begins`);
    this.#report(this.checker.open(this.disk.file));
    const { instances, volumes, snapshots } = this.checker;
    this.#report(this.model.wrong(instances, this.wallClock.latestMs(), LISTED_FOR_MS));
    this.#report(this.model.wrongDisks(volumes, snapshots));
    this.model.settle(instances, volumes, snapshots);
    life.start(this.limits).catch((error: unknown) => {
      if (!life.alive) return;
      this.schedule.say(`life ${life.number} could not begin: ${String(error)}`);
      this.kill();
    });
  }

  nextEngineFault(verb: Verb, about: string): EngineFaultChoice | undefined {
    const instance = this.checker.instances.get(about)?.instance;
    const how = instance ? ` ${instance.desired} ${instance.observed.status} ${instance.observed.phase}` : '';
    const mishap = this.faults.engine({ verb, about, nth: this.engineCalls.push(`${verb}${how}`) });
    if (verb === 'ensure' && (mishap?.mode === 'lying' || mishap?.mode === 'twice')) this.falselyEnsured.add(about);
    return mishap;
  }

  nextStorageFault(verb: StorageCall['verb'], about: string): StorageFaultChoice | undefined {
    return this.faults.storage({ verb, about, nth: ++this.#storageCalls });
  }

  watcherOf(life: ServerRun): Watcher {
    const { checker } = this;
    return {
      write: (table) => {
        if (!life.alive) return;
        checker.dirty.add(table);
        if (this.faults.statement(++this.#statements)) {
          this.schedule.say(`no room to write to ${table}`);
          throw failure(SQLITE_FULL, 'database or disk is full');
        }
      },
      released: (writer) => {
        if (life.alive) this.#report(checker.released(writer));
      },
      rolledBack: () => checker.rolledBack(),
      commit: (commit) => {
        if (!life.alive) throw new Killed('killed before a commit');
        const mishap = this.faults.commit(++this.#commits);
        if (!life.step(`commit ${[...checker.dirty].join(' ')}`)) throw new Killed('killed before a commit');
        if (mishap) this.schedule.say(`… ${mishap}`);
        if (mishap === 'full') throw failure(SQLITE_FULL, 'database or disk is full');
        if (mishap === 'io') throw failure(SQLITE_IOERR_FSYNC, 'disk I/O error');
        commit();
        this.#report(checker.committed(this.wallClock.latestMs(), this.wallClock.unstepped(STEP_UNSEEN_MS)));
        if (mishap === 'ioDone') throw failure(SQLITE_IOERR_FSYNC, 'disk I/O error');
        if (!life.step('committed')) throw new Killed('killed after a commit');
      },
    };
  }

  counts(): { storageCalls: number; commits: number; statements: number } {
    return {
      storageCalls: this.#storageCalls,
      commits: this.#commits,
      statements: this.#statements,
    };
  }

  /** Stops all faults. */
  heal(): void {
    this.schedule.say('all faults stop');
    this.hasHealed = true;
    this.faults = noFaults;
    this.wallClock.goOn();
    for (const one of this.regions) {
      one.find();
      one.engine.host.comeBack();
    }
  }

  async stop(): Promise<void> {
    if (this.server) this.kill();
    for (const { engine } of this.regions) {
      await engine.stop();
      await engine.host.stop();
    }
    while (this.schedule.nextAtMs() === this.schedule.nowMs) await this.schedule.step();
    this.disk.remove();
  }

  #report(wrong: readonly string[]): void {
    const [first] = wrong;
    if (first !== undefined) this.fail(first);
  }
}

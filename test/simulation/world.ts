/**
 * A whole simulated world: one engine, one storage and one disk that last, and a server that is killed and started again over them. Each
 * commit, call, answer and timer of the server is a step; it may die at any, and after each what it left is looked at.
 */
import type { Verb } from '../../src/engines/simulated/faults.ts';
import { makeSimulatedEngine, type SimulatedEngine } from '../../src/engines/simulated/simulated.ts';
import type { Times } from '../../src/engines/simulated/host.ts';
import type { Limits } from '../../src/domain/instance-states.ts';
import type { OrphanPolicy } from '../../src/domain/orphan.ts';
import { Checker, LISTED_FOR_MS } from './checker.ts';
import { Disk, type Watcher } from './disk.ts';
import { kindly, type Fate, type Mishap, type StorageCall, type StorageMishap } from './call-outcomes.ts';
import { makeIntents, type Intents } from './preconditions.ts';
import { Life } from './server-run.ts';
import { Model } from './model.ts';
import { Schedule } from './schedule.ts';
import { makeMemoryStorage, type MemoryStorage } from './storage.ts';
import { capacity, ids } from './template.ts';
import { Wall } from './wall-clock.ts';

/** The process itself comes to its end here: whatever is on the stack unwinds, and does nothing more. */
class Killed extends Error {}

const slowTimes: Partial<Times> = {
  pull: [20, 4_000],
  create: [2, 60],
  start: [2, 200],
  ready: [5, 1_500],
  init: [5, 900],
  halt: [2, 3_000],
  save: [10, 9_000],
};

const SQLITE_FULL = 13;
const SQLITE_IOERR_FSYNC = 1034;
const failure = (errcode: number, text: string): Error => Object.assign(new Error(text), { errcode });

export class World {
  readonly schedule: Schedule;
  readonly wall: Wall;
  readonly storage: MemoryStorage;
  readonly engine: SimulatedEngine;
  readonly disk: Disk;
  readonly model = new Model();
  readonly checker = new Checker(this.model);
  readonly intents: Intents;
  /** How the next call of that verb about that thing is done; set just before it. */
  readonly armed = new Map<string, 'halfway' | 'lying'>();
  /**
   * Instances that the engine said to have brought up to date, and had not; or has been told twice, the second time after something newer:
   * nobody can see that of a container that runs.
   */
  readonly liedAbout = new Set<string>();
  /** What is wrong, once something is: the run ends there. */
  wrong: string | null = null;
  /** Nothing befalls it any more. */
  healed = false;
  readonly installation = ids.installation;
  steps = 0;
  life: Life | null = null;
  lives = 0;
  fateNow: Fate;
  /** Whether archives go to a registry. */
  readonly pushes: boolean;
  readonly orphans: OrphanPolicy;
  limits: Partial<Limits>;
  /** Of each call to the engine: its verb, and how what it is about stood then. */
  readonly engineCalls: string[] = [];
  #storageCalls = 0;
  #commits = 0;
  #statements = 0;

  constructor(options: {
    seed: string;
    folder: string;
    template: Uint8Array;
    fate: (schedule: Schedule) => Fate;
    limits?: (schedule: Schedule) => Partial<Limits>;
    orphans?: (schedule: Schedule) => OrphanPolicy;
    pushes?: (schedule: Schedule) => boolean;
    times?: (schedule: Schedule) => Partial<Times>;
  }) {
    const schedule = new Schedule(options.seed);
    this.schedule = schedule;
    this.wall = new Wall(schedule);
    this.disk = new Disk(options.folder, options.template);
    this.storage = makeMemoryStorage();
    this.fateNow = options.fate(schedule);
    this.pushes = options.pushes?.(schedule) ?? false;
    this.orphans = options.orphans?.(schedule) ?? { action: 'delete', retentionMs: 0 };
    this.limits = options.limits?.(schedule) ?? {};
    this.engine = makeSimulatedEngine({
      installation: ids.installation,
      capacity,
      random: schedule.random,
      times: { ...slowTimes, ...options.times?.(schedule) },
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
    this.intents = makeIntents(this, this.checker, (text) => this.fail(text));
  }

  fail(text: string): void {
    if (this.wrong !== null) return;
    this.schedule.say(`WRONG: ${text}`);
    this.wrong = text;
  }

  /** One step of the server. False when it is dead after it. */
  step(life: Life, text: string): boolean {
    if (life !== this.life || !life.alive) return false;
    this.steps += 1;
    this.schedule.say(`${this.steps} ${text}`);
    if (!this.fateNow.kills(this.steps)) return true;
    this.kill();
    return false;
  }

  kill(): void {
    const { life } = this;
    if (!life) return;
    this.schedule.say(`life ${life.number} is killed`);
    life.kill();
    this.life = null;
    this.checker.close();
    this.schedule.later(0, this.disk.crash());
  }

  /** Another life begins, if none is there. */
  begin(): void {
    if (this.life) return;
    const life = new Life(this, ++this.lives);
    this.life = life;
    this.schedule.say(`life ${life.number} begins`);
    this.#report(this.checker.open(this.disk.file));
    const { instances, volumes, snapshots } = this.checker;
    this.#report(this.model.wrong(instances, this.wall.latestMs(), LISTED_FOR_MS));
    this.#report(this.model.wrongDisks(volumes, snapshots));
    this.model.settle(instances, volumes, snapshots);
    life.start(this.limits).catch((error: unknown) => {
      if (!life.alive) return;
      this.schedule.say(`life ${life.number} could not begin: ${String(error)}`);
      this.kill();
    });
  }

  engineMishap(verb: Verb, about: string): Mishap | undefined {
    const instance = this.checker.instances.get(about)?.instance;
    const how = instance ? ` ${instance.desired} ${instance.observed.status} ${instance.observed.phase}` : '';
    const mishap = this.fateNow.engine({ verb, about, nth: this.engineCalls.push(`${verb}${how}`) });
    if (verb === 'ensure' && (mishap?.mode === 'lying' || mishap?.mode === 'twice')) this.liedAbout.add(about);
    return mishap;
  }

  storageMishap(verb: StorageCall['verb'], about: string): StorageMishap | undefined {
    return this.fateNow.storage({ verb, about, nth: ++this.#storageCalls });
  }

  watcherOf(life: Life): Watcher {
    const { checker } = this;
    return {
      write: (table) => {
        if (!life.alive) return;
        checker.dirty.add(table);
        if (this.fateNow.statement(++this.#statements)) {
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
        const mishap = this.fateNow.commit(++this.#commits);
        if (!life.step(`commit ${[...checker.dirty].join(' ')}`)) throw new Killed('killed before a commit');
        if (mishap) this.schedule.say(`… ${mishap}`);
        if (mishap === 'full') throw failure(SQLITE_FULL, 'database or disk is full');
        if (mishap === 'io') throw failure(SQLITE_IOERR_FSYNC, 'disk I/O error');
        commit();
        this.#report(checker.committed(this.wall.latestMs()));
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

  /** From here on nothing goes wrong any more. */
  heal(): void {
    this.schedule.say('all faults stop');
    this.healed = true;
    this.fateNow = kindly;
    this.wall.goOn();
    this.engine.host.comeBack();
  }

  async stop(): Promise<void> {
    if (this.life) this.kill();
    await this.engine.stop();
    await this.engine.host.stop();
    while (this.schedule.nextAtMs() === this.schedule.nowMs) await this.schedule.step();
    this.disk.remove();
  }

  #report(wrong: readonly string[]): void {
    const [first] = wrong;
    if (first !== undefined) this.fail(first);
  }
}

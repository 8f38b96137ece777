/** Wall clock of the simulated machine: may jump or stand still while monotonic time continues. */
import type { Schedule } from './schedule.ts';

interface Stretch {
  fromMs: number;
  /** Wall time at the start of the segment. */
  dateMs: number;
  isFrozen: boolean;
}

/** 2027-01-15. */
const FIRST_MS = 1_800_000_000_000;

export class WallClock {
  readonly #schedule: Schedule;
  readonly #stretches: Stretch[] = [{ fromMs: 0, dateMs: FIRST_MS, isFrozen: false }];
  /** Furthest lead over monotonic time; stored records may have expired by then. */
  aheadMs = 0;
  #latestMs = 0;
  /** Sum of backward jumps, which delays earlier deadlines. */
  setBackMs = 0;

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  now(): number {
    return this.at(this.#schedule.nowMs);
  }

  /** Wall time after `passedMs`. */
  at(passedMs: number): number {
    const stretch = this.#stretches.findLast(({ fromMs }) => fromMs <= passedMs) ?? this.#stretches[0];
    if (!stretch) throw new Error('there is always a first stretch');
    return Math.floor(stretch.dateMs + (stretch.isFrozen ? 0 : passedMs - stretch.fromMs));
  }

  /** Latest wall time ever shown. */
  latestMs(): number {
    return Math.max(this.now(), this.#latestMs);
  }

  /** Times that a clock may show which has not seen the jumps of the last `withinMs` yet. */
  unstepped(withinMs: number): { earliestMs: number; latestMs: number } {
    const { nowMs } = this.#schedule;
    const before = this.#stretches
      .filter(({ fromMs }) => fromMs > nowMs - withinMs && fromMs > 0)
      .map(({ fromMs }) => this.at(fromMs - 1) + nowMs - fromMs + 1);
    const dates = [this.now(), ...before];
    return { earliestMs: Math.min(...dates), latestMs: Math.max(...dates) };
  }

  jump(ms: number): void {
    this.#latestMs = this.latestMs();
    this.#begin(this.now() + ms, false);
    this.setBackMs += Math.max(0, -ms);
    this.aheadMs = Math.max(this.aheadMs, this.now() - FIRST_MS - this.#schedule.nowMs);
  }

  freeze(): void {
    this.#begin(this.now(), true);
  }

  goOn(): void {
    this.#begin(this.now(), false);
  }

  #begin(dateMs: number, isFrozen: boolean): void {
    this.#stretches.push({ fromMs: this.#schedule.nowMs, dateMs, isFrozen });
  }
}

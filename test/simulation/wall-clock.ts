/** The date of the simulated machine: it may jump, and stand still, while time goes on. */
import type { Schedule } from './schedule.ts';

interface Stretch {
  fromMs: number;
  /** What the date says at its beginning. */
  dateMs: number;
  still: boolean;
}

/** 2027-01-15. */
const FIRST_MS = 1_800_000_000_000;

export class Wall {
  readonly #schedule: Schedule;
  readonly #stretches: Stretch[] = [{ fromMs: 0, dateMs: FIRST_MS, still: false }];
  /** The furthest that it ever was ahead of what has passed: records that are kept for a time may be gone by then. */
  aheadMs = 0;
  #latestMs = 0;
  /** By how much it was set back in all: deadlines that were set before come that much later. */
  setBackMs = 0;

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  now(): number {
    return this.at(this.#schedule.nowMs);
  }

  /** What the date said when that much time had passed. */
  at(passedMs: number): number {
    const stretch = this.#stretches.findLast(({ fromMs }) => fromMs <= passedMs) ?? this.#stretches[0];
    if (!stretch) throw new Error('there is always a first stretch');
    return Math.floor(stretch.dateMs + (stretch.still ? 0 : passedMs - stretch.fromMs));
  }

  /** The furthest that it ever said. */
  latestMs(): number {
    return Math.max(this.now(), this.#latestMs);
  }

  jump(ms: number): void {
    this.#latestMs = this.latestMs();
    this.#begin(this.now() + ms, false);
    this.setBackMs += Math.max(0, -ms);
    this.aheadMs = Math.max(this.aheadMs, this.now() - FIRST_MS - this.#schedule.nowMs);
  }

  standStill(): void {
    this.#begin(this.now(), true);
  }

  goOn(): void {
    this.#begin(this.now(), false);
  }

  #begin(dateMs: number, still: boolean): void {
    this.#stretches.push({ fromMs: this.#schedule.nowMs, dateMs, still });
  }
}

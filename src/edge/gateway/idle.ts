/**
 * What is under way and stands still. Each says how much has moved on it so far, and whose turn it is; one look now and then compares, so
 * that a request costs no timer and a chunk no clock.
 */
import { Bag, type InBag } from './swap-remove-list.ts';

export abstract class Moving implements InBag {
  at = -1;
  /** As the last look found it. */
  seenMoves = -1;
  seenAtMs = 0;
  /** Grows whenever something moves, either way. */
  abstract moves(): number;
  /** How long it may stand still as it is now; 0: as long as it likes. */
  abstract limitMs(): number;
  /** It stood still for so long. */
  abstract expire(): void;
}

const LOOKS_IN_A_LIMIT = 10;
const LONGEST_PAUSE_MS = 5_000;

export class IdleWatch {
  readonly #all = new Bag<Moving>();
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout | null = null;

  /** `limitsMs`: all that there are; without one nothing is looked at. */
  constructor(limitsMs: readonly number[], now: () => number) {
    this.#now = now;
    const shortestMs = Math.min(...limitsMs.filter((ms) => ms > 0));
    if (shortestMs === Infinity) return;
    this.#timer = setInterval(() => this.look(), Math.min(LONGEST_PAUSE_MS, shortestMs / LOOKS_IN_A_LIMIT));
    this.#timer.unref();
  }

  watch(one: Moving): void {
    if (this.#timer !== null) this.#all.add(one);
  }

  done(one: Moving): void {
    this.#all.delete(one);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  look(): void {
    const nowMs = this.#now();
    for (const one of this.#all.all()) {
      if (one.at < 0) continue;
      const moves = one.moves();
      const limitMs = one.limitMs();
      if (moves !== one.seenMoves) {
        one.seenMoves = moves;
        one.seenAtMs = nowMs;
      } else if (limitMs > 0 && nowMs - one.seenAtMs >= limitMs) {
        this.#all.delete(one);
        one.expire();
      }
    }
  }
}

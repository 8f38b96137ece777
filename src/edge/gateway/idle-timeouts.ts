import { SwapRemoveList, type ListItem } from './swap-remove-list.ts';

/** Idle detection: a periodic check compares progress; a request costs no timer or clock read. */
export abstract class IdleWatched implements ListItem {
  at = -1;
  lastMoves = -1;
  lastMoveAtMs = 0;
  /** Counter that grows with every move in either direction. */
  abstract moves(): number;
  /** Current idle limit; 0 disables. */
  abstract limitMs(): number;
  abstract expire(): void;
}

const LOOKS_IN_A_LIMIT = 10;
const LONGEST_PAUSE_MS = 5_000;

export class IdleTimeouts {
  readonly #all = new SwapRemoveList<IdleWatched>();
  readonly #elapsed: () => number;
  readonly #timer: NodeJS.Timeout | null = null;

  /** `limitsMs`: all configured limits; without any, no timer runs. */
  constructor(limitsMs: readonly number[], elapsed: () => number) {
    this.#elapsed = elapsed;
    const shortestMs = Math.min(...limitsMs.filter((ms) => ms > 0));
    if (shortestMs === Infinity) return;
    this.#timer = setInterval(() => this.look(), Math.min(LONGEST_PAUSE_MS, shortestMs / LOOKS_IN_A_LIMIT));
    this.#timer.unref();
  }

  watch(one: IdleWatched): void {
    if (this.#timer !== null) this.#all.add(one);
  }

  done(one: IdleWatched): void {
    this.#all.delete(one);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  look(): void {
    const nowMs = this.#elapsed();
    for (const one of this.#all.all()) {
      if (one.at < 0) continue;
      const moves = one.moves();
      const limitMs = one.limitMs();
      if (moves !== one.lastMoves) {
        one.lastMoves = moves;
        one.lastMoveAtMs = nowMs;
      } else if (limitMs > 0 && nowMs - one.lastMoveAtMs >= limitMs) {
        this.#all.delete(one);
        one.expire();
      }
    }
  }
}

/**
 * Things under way, in no order. Not a Set: each request comes and goes, and the tables that a Set leaves behind as it does so hold on to
 * one another, so that the garbage of all requests outlives every quick collection.
 */
export interface InBag {
  /** Its place in the bag; -1: it is in none. It can be in one alone. */
  at: number;
}

export class Bag<One extends InBag> {
  readonly #all: One[] = [];

  add(one: One): void {
    one.at = this.#all.length;
    this.#all.push(one);
  }

  /** One that is not in it is none the worse. */
  delete(one: One): void {
    if (one.at < 0) return;
    const last = this.#all.pop();
    if (last !== undefined && last !== one) {
      this.#all[one.at] = last;
      last.at = one.at;
    }
    one.at = -1;
  }

  /** As they are now. Each may leave while they are gone through: then its `at` is -1. */
  all(): One[] {
    return [...this.#all];
  }
}

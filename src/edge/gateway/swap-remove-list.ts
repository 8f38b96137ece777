/** Unordered list with O(1) removal. A Set's retired tables retain garbage over collections. */
export interface ListItem {
  /** Index in the list; -1: in none. An item is in one list at most. */
  at: number;
}

export class SwapRemoveList<One extends ListItem> {
  readonly #all: One[] = [];

  add(one: One): void {
    one.at = this.#all.length;
    this.#all.push(one);
  }

  delete(one: One): void {
    if (one.at < 0) return;
    const last = this.#all.pop();
    if (last !== undefined && last !== one) {
      this.#all[one.at] = last;
      last.at = one.at;
    }
    one.at = -1;
  }

  /** A snapshot. Items that leave during iteration have `at` -1. */
  all(): One[] {
    return [...this.#all];
  }
}

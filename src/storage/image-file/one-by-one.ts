/** Deeds that must not overlap come one after the other, in the order in which they are asked for. */
const lasts = new Map<string, Promise<unknown>>();

export function oneByOne<T>(what: string, deed: () => Promise<T>): Promise<T> {
  const before = lasts.get(what) ?? Promise.resolve();
  const mine = before.then(deed, deed);
  lasts.set(what, mine);
  const forget = (): void => {
    if (lasts.get(what) === mine) lasts.delete(what);
  };
  mine.then(forget, forget);
  return mine;
}

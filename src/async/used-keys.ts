/** Keys that count once until their end, such as one-time tokens. */
export interface UsedKeys {
  /** False for a key that is in use or was used. */
  use(key: string, endsAtMs: number): boolean;
  /** Lets a key count again. */
  release(key: string): void;
  has(key: string): boolean;
}

/** `elapsed`: monotonic. Keys end about in the order of their use. */
export function makeUsedKeys(elapsed: () => number = () => performance.now()): UsedKeys {
  const ends = new Map<string, number>();
  return {
    use(key, endsAtMs) {
      for (const [earlier, earlierEndMs] of ends) {
        if (elapsed() < earlierEndMs) break;
        ends.delete(earlier);
      }
      if (ends.has(key)) return false;
      ends.set(key, endsAtMs);
      return true;
    },
    release: (key) => void ends.delete(key),
    has: (key) => ends.has(key),
  };
}

/** A map bounded by entries and bytes; evicts the least recently used entry first. */
export interface BoundedMap<Value> {
  get(key: string): Value | undefined;
  /** Does not mark the entry as used. */
  peek(key: string): Value | undefined;
  set(key: string, value: Value): void;
  delete(key: string): void;
  /** Least recently used first. Deleting while iterating is allowed. */
  entries(): IterableIterator<[string, Value]>;
  readonly size: number;
}

export interface MapBounds<Value> {
  maxEntries?: number;
  maxBytes?: number;
  bytesOf?: (value: Value) => number;
}

export function makeBoundedMap<Value extends NonNullable<unknown>>({
  maxEntries = Infinity,
  maxBytes = Infinity,
  bytesOf = () => 0,
}: MapBounds<Value>): BoundedMap<Value> {
  /** A Map iterates in insertion order: the first entry is the least recently used. */
  const values = new Map<string, Value>();
  let bytes = 0;

  function remove(key: string): void {
    const value = values.get(key);
    if (value === undefined) return;
    values.delete(key);
    bytes -= bytesOf(value);
  }

  return {
    get(key) {
      const value = values.get(key);
      if (value === undefined) return undefined;
      values.delete(key);
      values.set(key, value);
      return value;
    },
    peek: (key) => values.get(key),
    set(key, value) {
      remove(key);
      values.set(key, value);
      bytes += bytesOf(value);
      for (const oldest of values.keys()) {
        if (values.size <= maxEntries && bytes <= maxBytes) break;
        remove(oldest);
      }
    },
    delete: remove,
    entries: () => values.entries(),
    get size() {
      return values.size;
    },
  };
}

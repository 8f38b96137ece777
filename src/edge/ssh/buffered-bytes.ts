/**
 * Limits buffered bytes per instance and in total: unread bytes from clients, and bytes that
 * clients do not read. ssh2 accepts data beyond its window and buffers every reply without bound.
 */
export interface BufferedBytes {
  forInstance(): InstanceBytes;
}

export interface InstanceBytes {
  /** False when the instance is over its limit; the sender is disconnected. */
  accept(bytes: number): boolean;
  /** Counts this buffer until the returned function is called. */
  watch(length: () => number): () => void;
}

export const bufferedBytesLimits = {
  perInstance: 128 * 1024 ** 2,
  total: 512 * 1024 ** 2,
  /** Buffers are measured again after this many received bytes. */
  recountEvery: 4 * 1024 ** 2,
};

interface Instance {
  watched: Set<() => number>;
  bytes: number;
}

export function makeBufferedBytes({ perInstance, total, recountEvery }: typeof bufferedBytesLimits): BufferedBytes {
  const instances = new Set<Instance>();
  let all = 0;
  let uncounted = 0;

  const count = (): void => {
    uncounted = all = 0;
    for (const one of instances) {
      one.bytes = 0;
      for (const length of one.watched) one.bytes += length();
      all += one.bytes;
    }
  };
  const isTooMuch = ({ bytes }: Instance): boolean => bytes >= Math.min(perInstance, Math.max(1, total - all));

  return {
    forInstance() {
      const mine: Instance = { watched: new Set(), bytes: 0 };
      return {
        accept(bytes) {
          uncounted += bytes;
          if (uncounted < recountEvery && !isTooMuch(mine)) return true;
          count();
          return !isTooMuch(mine);
        },
        watch(length) {
          mine.watched.add(length);
          instances.add(mine);
          return () => {
            mine.watched.delete(length);
            if (mine.watched.size > 0) return;
            instances.delete(mine);
            mine.bytes = 0;
          };
        },
      };
    },
  };
}

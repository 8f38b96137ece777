/**
 * What of clients' bytes lies in this process: what they have sent and nobody has taken, and what was sent to them and they don't read. ssh2
 * takes what goes beyond the window that it gave, and keeps every answer. So much is let be of one instance, and no more than is left for all
 * others; who sends more while it is too much goes.
 */
export interface BufferedBytes {
  /** That of one instance. */
  forInstance(): InstanceBytes;
}

export interface InstanceBytes {
  /** Asked with what has come. False: it is too much. */
  accept(bytes: number): boolean;
  /** Until what is answered is called. */
  watch(length: () => number): () => void;
}

export interface BufferedBytesLimits {
  perInstance: number;
  total: number;
  /** As what is held is not known before it is counted. */
  recountEvery: number;
}

export const bufferedBytesLimits: BufferedBytesLimits = {
  perInstance: 128 * 1024 ** 2,
  total: 512 * 1024 ** 2,
  recountEvery: 4 * 1024 ** 2,
};

interface Instance {
  watched: Set<() => number>;
  bytes: number;
}

export function makeBufferedBytes({ perInstance, total, recountEvery }: BufferedBytesLimits): BufferedBytes {
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

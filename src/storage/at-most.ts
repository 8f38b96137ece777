/** Deeds of which so many go on at once, and the others wait in the order in which they came. */
export function atMost(count: number): <T>(deed: () => Promise<T>) => Promise<T> {
  let free = count;
  const waiting: (() => void)[] = [];
  return async (deed) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await deed();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  };
}

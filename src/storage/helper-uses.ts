/** Commands that run in helpers which serve files, and the time since the last one. */
export interface HelperUses {
  /** Runs `open`, and counts what it opens as in use until it has ended. */
  during<T extends { exited: Promise<unknown> }>(name: string, open: () => Promise<T>): Promise<T>;
  /** Also of a helper that this process has never used. */
  isIdle(name: string): boolean;
  forget(name: string): void;
}

export function makeHelperUses({ idleMs, elapsed }: { idleMs: number; elapsed: () => number }): HelperUses {
  const uses = new Map<string, { running: number; lastMs: number }>();
  return {
    async during(name, open) {
      const use = uses.get(name) ?? { running: 0, lastMs: elapsed() };
      uses.set(name, use);
      use.running += 1;
      const leave = (): void => {
        use.running -= 1;
        use.lastMs = elapsed();
      };
      try {
        const opened = await open();
        opened.exited.then(leave, leave);
        return opened;
      } catch (error) {
        leave();
        throw error;
      }
    },
    isIdle(name) {
      const use = uses.get(name);
      return use === undefined || (use.running === 0 && elapsed() - use.lastMs >= idleMs);
    },
    forget: (name) => void uses.delete(name),
  };
}

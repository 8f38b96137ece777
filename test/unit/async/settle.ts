import { setImmediate } from 'node:timers/promises';

/** Resolves after all promise callbacks that are ready now. */
export const settle = (): Promise<void> => setImmediate();

/**
 * Argon2id in threads of the lowest priority: a flood of logins takes the processor time that
 * requests leave. The threads end when they are idle. Measured by the bench `hostile`.
 */
import { Piscina } from 'piscina';
import { HASHES_AT_ONCE, type Argon2id } from './passwords.ts';

const LOWEST_PRIORITY = 19;
const IDLE_MS = 10_000;

export function makeArgon2Threads(): { argon2id: Argon2id; stop: () => Promise<void> } {
  const pool = new Piscina<Parameters<Argon2id>[0], Uint8Array>({
    filename: new URL('./argon2-thread.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: HASHES_AT_ONCE,
    niceIncrement: LOWEST_PRIORITY,
    idleTimeout: IDLE_MS,
  });
  const ending = new AbortController();
  return {
    argon2id: (parameters) =>
      pool.run(parameters).catch((error: unknown) => {
        // The pool names several causes, by what its thread did.
        ending.signal.throwIfAborted();
        throw error;
      }),
    stop() {
      ending.abort();
      return pool.destroy();
    },
  };
}

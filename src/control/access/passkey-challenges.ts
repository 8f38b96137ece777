/**
 * Challenges of passkeys: sealed, not stored, good once, within five minutes. The key of the seal
 * is lost with the process, as is what was used: a restart ends what is under way.
 */
import { randomBytes as processBytes } from 'node:crypto';
import { makeBoundedMap } from '../../async/bounded-map.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import type { RandomBytes } from './random.ts';
import { makeSeal, type Time } from '../kernel/ports.ts';

const LIFE_MS = 5 * MINUTE_MS;
const MAX_REMEMBERED = 20_000;

export interface Challenges {
  /** Base64url. */
  make(about: string): string;
  isActive(challenge: string, about: string): boolean;
  /** False for the second time. */
  useUp(challenge: string): boolean;
}

export function makeChallenges({
  time,
  randomBytes,
}: {
  time: Pick<Time, 'elapsed'>;
  randomBytes: RandomBytes;
}): Challenges {
  const seal = makeSeal({ key: processBytes(32), randomBytes });
  const used = makeBoundedMap<true>({ maxEntries: MAX_REMEMBERED });
  return {
    make: (about) => Buffer.from(seal.seal(String(time.elapsed() + LIFE_MS), about)).toString('base64url'),
    isActive(challenge, about) {
      const endsAtMs = seal.open(Buffer.from(challenge, 'base64url').toString(), about);
      return endsAtMs !== null && time.elapsed() < Number(endsAtMs) && !used.peek(challenge);
    },
    useUp(challenge) {
      if (used.peek(challenge)) return false;
      used.set(challenge, true);
      return true;
    },
  };
}

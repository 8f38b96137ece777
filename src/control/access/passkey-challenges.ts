/** Challenges of passkeys: sealed, not stored, good once, within five minutes. */
import { makeUsedKeys } from '../../async/used-keys.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { makeTimedSeal, type Time } from '../kernel/ports.ts';

const LIFE_MS = 5 * MINUTE_MS;

export interface Challenges {
  /** Base64url. */
  make(purpose: string): string;
  isActive(challenge: string, purpose: string): boolean;
  /** False for the second time. */
  useUp(challenge: string): boolean;
}

export function makeChallenges({ time: { elapsed } }: { time: Pick<Time, 'elapsed'> }): Challenges {
  const seal = makeTimedSeal({ about: 'challenge of a passkey', lifeMs: LIFE_MS, elapsed });
  const used = makeUsedKeys(elapsed);
  return {
    make: (purpose) => Buffer.from(seal.seal(purpose)).toString('base64url'),
    isActive: (challenge, purpose) =>
      seal.open(Buffer.from(challenge, 'base64url').toString())?.text === purpose && !used.has(challenge),
    useUp: (challenge) => used.use(challenge, elapsed() + LIFE_MS),
  };
}

/**
 * How a simulated engine misbehaves. A hook is asked before each call of a verb (for `observe` and `usage` once for each id) and
 * answers with a fault or with none; `makeRandomFaults` is such a hook, the same in each run with the same seed.
 */
import { EngineFault, type FaultKind, type FaultReason } from '../../domain/engine-fault.ts';
import { makeRandom } from './random.ts';

export const verbs = [
  'probe',
  'listOwned',
  'observe',
  'ensureImage',
  'pushImage',
  'removeImage',
  'ensure',
  'halt',
  'destroy',
  'saveImage',
  'discard',
  'watch',
  'logs',
  'followLogs',
  'openExec',
  'exec',
  'dial',
  'joinNetwork',
  'listenUnix',
  'usage',
] as const;
export type Verb = (typeof verbs)[number];

export interface Call {
  verb: Verb;
  /** The instance's id, the image's ref, or '' where a call is about none. */
  about: string;
  /** Counts the calls of this verb about this, from 1. */
  nth: number;
  nowMs: number;
}

export type SimulatedFault =
  /** Begins that much later. */
  | { mode: 'slow'; ms: number }
  /** Takes effect at once, answers that much later. */
  | { mode: 'late'; ms: number }
  /** Takes effect, and never answers, until the caller aborts. A hint of `watch` is dropped. */
  | { mode: 'lost' }
  /** No effect, and a fault (`unreachable` if not said otherwise). */
  | { mode: 'failBefore'; kind?: FaultKind }
  /** The effect, and then a fault all the same. */
  | { mode: 'failAfter'; kind?: FaultKind }
  /** `ensure` creates and doesn't start; `destroy` stops and doesn't remove; others fail before the effect. */
  | { mode: 'halfway' }
  /** No effect, and success is answered: `observe` says running, `ensure` started, `destroy` gone, `listOwned` nothing. */
  | { mode: 'lying' }
  /** The container in question, root disk included, was lost before the call. */
  | { mode: 'forgetful' }
  /** The whole engine is away from now on, for that long. */
  | { mode: 'unreachable'; ms: number };

export type FaultMode = SimulatedFault['mode'];
export const faultModes: readonly FaultMode[] = [
  'slow',
  'late',
  'lost',
  'failBefore',
  'failAfter',
  'halfway',
  'lying',
  'forgetful',
  'unreachable',
];

export type Faults = (call: Call) => SimulatedFault | undefined;

/** For each verb the share of its calls, 0 to 1, that meets each mode. */
export type FaultRates = Partial<Record<Verb, Partial<Record<FaultMode, number>>>>;

/**
 * Draws by seed, verb, subject and count, so a call's fate doesn't hang on what other calls came before it: the same seed gives
 * the same faults even when instances are worked at in another order. `ms` is how long `slow`, `late` and `unreachable` take at most.
 */
export function makeRandomFaults({
  seed,
  rates,
  ms = 1_000,
}: {
  seed: string;
  rates: FaultRates;
  ms?: number;
}): Faults {
  return ({ verb, about, nth }) => {
    const shares = rates[verb];
    if (shares === undefined) return undefined;
    const random = makeRandom(`${seed} ${verb} ${about} ${nth}`);
    let drawn = random();
    for (const mode of faultModes) {
      drawn -= shares[mode] ?? 0;
      if (drawn < 0)
        return mode === 'slow' || mode === 'late' || mode === 'unreachable'
          ? { mode, ms: Math.ceil(random() * ms) }
          : { mode };
    }
    return undefined;
  };
}

const lasting: readonly FaultKind[] = ['not_found', 'rejected', 'denied'];

export const simulatedFault = (
  kind: FaultKind,
  message: string,
  more: { reason?: FaultReason; takenNodePort?: number } = {},
): EngineFault => new EngineFault(kind, message, { retry: !lasting.includes(kind), ...more });

/** A call that was aborted: what came of it is not known. */
export const givenUp = (signal: AbortSignal): EngineFault =>
  new EngineFault('unreachable', 'the call was given up before the engine had answered', {
    retry: true,
    cause: signal.reason,
  });

/** Never answers; rejects when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(givenUp(signal));
    else signal.addEventListener('abort', () => reject(givenUp(signal)), { once: true });
  });
}

/** What comes of `work`, unless the signal aborts before; it goes on all the same. */
export async function orGivenUp<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const { promise: left, reject } = Promise.withResolvers<never>();
  const leave = (): void => reject(givenUp(signal));
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await Promise.race([work, left]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

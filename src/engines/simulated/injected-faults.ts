/** Faults of a simulated engine, drawn before each call (`observe` and `usage`: per id). */
import { EngineFault, type FaultKind, type FaultReason } from '../../domain/regions/engine-fault.ts';

export const verbs = [
  'probe',
  'listOwned',
  'observe',
  'ensureImage',
  'checkImage',
  'describeImage',
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

export interface EngineCall {
  verb: Verb;
  about: string;
  /** Count of this verb's calls for this subject, from 1. */
  nth: number;
  nowMs: number;
}

export type SimulatedFault =
  | { mode: 'slow'; ms: number }
  | { mode: 'late'; ms: number }
  /** Takes effect, never answers. A hint of `watch` is dropped. */
  | { mode: 'lost' }
  /** No effect, and a fault (default `unreachable`). */
  | { mode: 'failBefore'; kind?: FaultKind }
  | { mode: 'failAfter'; kind?: FaultKind }
  /** `ensure` creates without starting, `destroy` stops without removing, others have no effect. */
  | { mode: 'halfway' }
  /** No effect, and success is answered. */
  | { mode: 'lying' }
  /** The container with its root disk was lost before the call. */
  | { mode: 'forgetful' }
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

export type Faults = (call: EngineCall) => SimulatedFault | undefined;

const lasting: readonly FaultKind[] = ['not_found', 'rejected', 'denied'];

export const simulatedFault = (
  kind: FaultKind,
  message: string,
  more: { reason?: FaultReason; takenNodePort?: number } = {},
): EngineFault => new EngineFault(kind, message, { retry: !lasting.includes(kind), ...more });

/** An aborted call has an unknown outcome. */
export const aborted = (signal: AbortSignal): EngineFault =>
  new EngineFault('unreachable', 'the call was aborted before the engine answered', {
    retry: true,
    cause: signal.reason,
  });

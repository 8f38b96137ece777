/** What an engine could not do for somebody who waits for it, as their refusal. */
import { EngineFault } from '../../domain/engine-fault.ts';
import { Refusal } from '../../domain/refusal.ts';

/** Anything else is left as it is. */
export function refusalOfFault(error: unknown): unknown {
  if (!(error instanceof EngineFault)) return error;
  const more = { detail: error };
  switch (error.kind) {
    case 'not_found':
      return new Refusal('not_now', `${error.message}; start it first`, more);
    case 'busy':
      return new Refusal('not_now', error.message, { ...more, retryAfterS: 5 });
    case 'no_capacity':
      return new Refusal('no_capacity', error.message, more);
    case 'rejected':
    case 'denied':
      return new Refusal('unsupported', error.message, more);
    case 'unreachable':
      return new Refusal('unavailable', 'the engine of the instance does not answer now; try again in a moment', {
        ...more,
        retryAfterS: 5,
      });
    default:
      return error.kind satisfies never;
  }
}

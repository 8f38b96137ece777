import { EngineFault } from '../../../domain/engine-fault.ts';
import { faultOf, sentenceOf, statusOf } from '../client/faults.ts';

export function throwNotRunning(error: unknown): never {
  if (statusOf(error) !== 409) throw faultOf(error);
  throw isPaused(error)
    ? new EngineFault('busy', 'the instance stands still at the moment, as when it is saved', {
        retry: true,
        cause: error,
      })
    : new EngineFault('not_found', 'the instance does not run', { retry: false, cause: error });
}

export const isExecGone = (error: unknown): boolean =>
  statusOf(error) === 404 || (statusOf(error) === 409 && !isPaused(error));

const isPaused = (error: unknown): boolean => /is paused/i.test(sentenceOf(error));

export const instanceEnded = (cause?: unknown): EngineFault =>
  new EngineFault('not_found', 'the instance ended while the command ran', { retry: false, cause });

export const connectionLost = (cause: unknown): EngineFault =>
  new EngineFault('unreachable', 'the engine has lost sight of the command', { retry: false, cause });

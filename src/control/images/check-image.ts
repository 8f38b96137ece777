/** Asks the registry whether an account may launch an image. */
import { makeSemaphore } from '../../async/semaphore.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { Limits } from '../../domain/instance-states.ts';
import { registryServerOf } from '../../domain/image-ref.ts';
import { errorText } from '../../domain/unknown-error.ts';
import type { TaskDeps } from '../base/deps.ts';
import { withCredentialAdvice, type CredentialsFor } from './registries.ts';

/** `refused`: a launch would fail. `unchecked`: the registry or the engine did not answer. */
export type ImageCheck = { kind: 'fits' } | { kind: 'refused' | 'unchecked'; why: string };

/** Never throws. Without `ownerId`: an image of the operator, without credentials. */
export type CheckImage = (ownerId: string | undefined, ref: string) => Promise<ImageCheck>;

const CHECKS_AT_ONCE = 8;

export const uncheckedText = (why: string): string => `not checked yet: ${why}`;

export function makeCheckImage({
  regions,
  time,
  limits,
  credentialsFor,
}: Pick<TaskDeps, 'regions' | 'time'> & {
  limits: Pick<Limits, 'imageCheckMs'>;
  credentialsFor: CredentialsFor;
}): CheckImage {
  const semaphore = makeSemaphore(CHECKS_AT_ONCE);

  async function ask(ownerId: string | undefined, ref: string, signal: AbortSignal): Promise<ImageCheck> {
    const drivers = regions.all().find(({ health }) => health.answers);
    if (drivers === undefined) return { kind: 'unchecked', why: 'the container engine does not answer' };
    const credentials = ownerId === undefined ? undefined : await credentialsFor(ownerId, registryServerOf(ref));
    try {
      await drivers.engine.checkImage(ref, signal, credentials);
      return { kind: 'fits' };
    } catch (error) {
      throw error instanceof EngineFault ? withCredentialAdvice(error, { ref, ownerId, credentials }) : error;
    }
  }

  return async (ownerId, ref) => {
    const signal = time.deadline(limits.imageCheckMs);
    try {
      return await semaphore.run(() => ask(ownerId, ref, signal), { signal });
    } catch (error) {
      if (signal.aborted)
        return { kind: 'unchecked', why: `the registry did not answer within ${limits.imageCheckMs / 1_000} s` };
      const why = errorText(error).replace(`${ref}: `, '');
      return { kind: isLasting(error) ? 'refused' : 'unchecked', why };
    }
  };
}

/** A registry that fails may answer what looks like a corrupt image: that is no refusal. */
const isLasting = (error: unknown): boolean =>
  error instanceof EngineFault &&
  (error.reason === 'imageMissing' ||
    error.reason === 'imageDenied' ||
    (error.reason === 'imageUnfit' && !error.retry));

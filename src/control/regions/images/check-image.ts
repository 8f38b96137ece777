/**
 * Asks the registry, through the engine of each region, whether an account may launch an image. A
 * region says whether the image fits its processors; a registry answers the same everywhere.
 */
import { makeSemaphore } from '../../../async/semaphore.ts';
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import type { Limits } from '../../../domain/compute/instance-states.ts';
import { isLocalServer, registryServerOf } from '../../../domain/regions/image-ref.ts';
import { errorText } from '../../../domain/kernel/unknown-error.ts';
import { withCredentialAdvice, type CredentialsFor } from './registries.ts';
import type { TaskDeps, RegionDrivers } from '../../kernel/ports.ts';

/**
 * `refused`: a launch would fail in every region. `unchecked`: a registry or engine did not answer,
 * or no engine can ask (`isFinal`).
 */
export type ImageCheck =
  | { kind: 'fits'; digest: string }
  | { kind: 'refused'; why: string }
  | { kind: 'unchecked'; why: string; isFinal?: true };

type RegionCheck =
  | { kind: 'fits'; digest: string }
  | { kind: 'unable' }
  | { kind: 'unchecked'; why: string }
  | { kind: 'refused'; why: string; isOfRegistry: boolean };

/** Never throws. Without `ownerId`: an image of the operator, without credentials. */
export type CheckImage = (ownerId: string | undefined, ref: string) => Promise<ImageCheck>;

const CHECKS_AT_ONCE = 8;
const CHECKS_PER_OWNER = 2;

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
  const semaphore = makeSemaphore(CHECKS_AT_ONCE, { perOwner: CHECKS_PER_OWNER });

  const uncheckedBy = (error: unknown, ref: string, signal: AbortSignal): RegionCheck & { kind: 'unchecked' } => ({
    kind: 'unchecked',
    why: signal.aborted
      ? `the registry did not answer within ${limits.imageCheckMs / 1_000} s`
      : errorText(error).replace(`${ref}: `, ''),
  });

  async function askRegion(
    { engine, health }: RegionDrivers,
    { ref, ownerId, credentials }: Request,
    signal: AbortSignal,
  ): Promise<RegionCheck> {
    if (!health.answers) return { kind: 'unchecked', why: 'the container engine does not answer' };
    try {
      const answer = await engine.checkImage(ref, signal, credentials);
      return answer === false ? { kind: 'unable' } : { kind: 'fits', digest: answer.digest };
    } catch (error) {
      const fault =
        error instanceof EngineFault ? withCredentialAdvice(error, { ref, ownerId, credentials }) : undefined;
      const { why } = uncheckedBy(fault ?? error, ref, signal);
      if (signal.aborted || fault === undefined) return { kind: 'unchecked', why };
      if (fault.reason === 'imageMissing' || fault.reason === 'imageDenied')
        return { kind: 'refused', why, isOfRegistry: !isLocalServer(registryServerOf(ref)) };
      // A registry that fails may answer what looks like a corrupt image: that is no refusal.
      const isUnfit = fault.reason === 'imageUnfit' && !fault.retry;
      return isUnfit ? { kind: 'refused', why, isOfRegistry: false } : { kind: 'unchecked', why };
    }
  }

  async function ask(ownerId: string | undefined, ref: string, signal: AbortSignal): Promise<ImageCheck> {
    const credentials = ownerId === undefined ? undefined : await credentialsFor(ownerId, registryServerOf(ref));
    const request = { ref, ownerId, credentials };
    return combine(await Promise.all(regions.all().map((drivers) => askRegion(drivers, request, signal))));
  }

  return async (ownerId, ref) => {
    const signal = time.deadline(limits.imageCheckMs);
    let isAsked = false;
    const askOnce = (): Promise<ImageCheck> => {
      isAsked = true;
      return ask(ownerId, ref, signal);
    };
    try {
      return await semaphore.run(askOnce, { owner: ownerId ?? '', signal });
    } catch (error) {
      return isAsked ? uncheckedBy(error, ref, signal) : { kind: 'unchecked', why: BUSY };
    }
  };
}

interface Request {
  ref: string;
  ownerId: string | undefined;
  credentials: Awaited<ReturnType<CredentialsFor>>;
}

const BUSY = 'too many checks of your images are under way';
const NO_ENGINE = 'no engine of a region can ask a registry before it downloads the image';

/** One region that fits is enough, and so is one refusal by the registry of all regions. */
function combine(checks: readonly RegionCheck[]): ImageCheck {
  const fit = checks.find((check) => check.kind === 'fits');
  if (fit !== undefined) return { kind: 'fits', digest: fit.digest };
  const refusals = checks.filter((check) => check.kind === 'refused');
  const refusal = refusals.find(({ isOfRegistry }) => isOfRegistry) ?? refusals[0];
  if (refusal !== undefined && (refusal.isOfRegistry || refusals.length === checks.length))
    return { kind: 'refused', why: refusal.why };
  const whys = checks.flatMap((check) => ('why' in check ? [check.why] : []));
  if (whys.length === 0) return { kind: 'unchecked', why: NO_ENGINE, isFinal: true };
  const isWaiting = checks.some(({ kind }) => kind === 'unchecked');
  return { kind: 'unchecked', why: [...new Set(whys)].join('; '), ...(isWaiting ? {} : { isFinal: true as const }) };
}

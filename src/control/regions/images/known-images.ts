import type { Limits } from '../../../domain/compute/instance-states.ts';
import { isLocalRef, isPinned } from '../../../domain/regions/image-ref.ts';
import type { KnownImage } from '../../../domain/regions/image-facts.ts';
import { changeKnownImages } from '../../../store/tables/image-facts.ts';
import type { TaskDeps } from '../../kernel/ports.ts';
import type { ImagePullDeps } from './image-pulls.ts';

type Deps = Pick<TaskDeps, 'store' | 'regions' | 'time'> & { limits: Pick<Limits, 'imageFollowMs'> };

export function makeRecordFacts({ store, regions, time, limits }: Deps): ImagePullDeps['onEnsured'] {
  return async (engine, { ref, ownerId = null }, { facts, isOfRegistry }) => {
    const region = regions.all().find((drivers) => drivers.engine === engine)?.regionId;
    if (facts === null || region === undefined) return;
    const change = (known: KnownImage): KnownImage => ({
      registryDigest: isOfRegistry ? (facts.digests[0] ?? '') : known.registryDigest,
      regions: { ...known.regions, [region]: facts },
    });
    const compareAtMs = isLocalRef(ref) || isPinned(ref) ? null : time.now() + limits.imageFollowMs;
    await changeKnownImages(store, { ref, ownerId }, change, compareAtMs);
  };
}

export const recordDigest = (
  { store }: Pick<Deps, 'store'>,
  of: { ref: string; ownerId: string | null },
  digest: string,
): Promise<void> =>
  changeKnownImages(store, of, (known): KnownImage => ({ ...known, registryDigest: digest || known.registryDigest }));

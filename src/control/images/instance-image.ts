/**
 * Chooses the image of an instance's container. The engine may have a private image because another
 * account pulled it, so each container asks the registry with its own account's credentials.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import { registryServerOf } from '../../domain/image-ref.ts';
import type { Instance } from '../../domain/instance.ts';
import type { CredentialsFor } from './registries.ts';
import type { RegionDrivers } from '../base/regions.ts';
import type { ImageRequest } from './image-pulls.ts';

export const imageRefOf = ({ archive, spec }: Pick<Instance, 'archive' | 'spec'>): string =>
  archive?.ref ?? spec.image.ref;

/** True for root disks in the engine's store or the operator's registry, which need no account. */
const isRootDisk = ({ archivePrefix, savedPrefix }: RegionDrivers, ref: string): boolean =>
  ref.startsWith(`${archivePrefix}/`) || ref.startsWith(`${savedPrefix}/`);

export async function imageRequestOf(
  instance: Pick<Instance, 'archive' | 'spec' | 'ownerId'>,
  drivers: RegionDrivers,
  credentialsFor: CredentialsFor,
): Promise<ImageRequest> {
  const ref = imageRefOf(instance);
  if (isRootDisk(drivers, ref)) return { ref, credentials: drivers.archiveCredentials };
  if (instance.archive !== null || instance.spec.image.isPublic) return { ref };
  const { ownerId } = instance;
  return { ref, ownerId, credentials: await credentialsFor(ownerId, registryServerOf(ref)) };
}

export const withCredentialAdvice = (fault: EngineFault, { ref, ownerId, credentials }: ImageRequest): EngineFault => {
  if (fault.kind !== 'denied' || ownerId === undefined) return fault;
  const server = registryServerOf(ref);
  const advice =
    credentials === undefined
      ? `register credentials for ${server} with POST /api/registry/create`
      : `delete the credentials for ${server} (user ${credentials.username}) with POST /api/registry/delete, and register others that may read it`;
  return new EngineFault(fault.kind, `${fault.message}; ${advice}`, {
    retry: fault.retry,
    reason: fault.reason,
    cause: fault.cause,
  });
};

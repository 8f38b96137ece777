/**
 * Which image an instance's container is made from, and as whom it is had. It is its own root disk once that was archived, else
 * the one it was launched with. What lies in the store of an engine may be there because another account had it pulled: so an
 * image of the account's own is asked for at its registry, with the account's credentials, whenever a container is made from it.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import { registryServerOf } from '../../domain/image-ref.ts';
import type { Instance } from '../../domain/instance.ts';
import type { CredentialsFor } from './registries.ts';
import type { RegionDrivers } from '../base/regions.ts';
import type { ImageRequest } from './image-pulls.ts';

export const imageRefOf = ({ archive, spec }: Pick<Instance, 'archive' | 'spec'>): string =>
  archive?.ref ?? spec.image.ref;

/** Root disks that Berth keeps: in the engine's store, where nobody has to be asked, or in the operator's registry. */
const isKept = ({ archivePrefix, savedPrefix }: RegionDrivers, ref: string): boolean =>
  ref.startsWith(`${archivePrefix}/`) || ref.startsWith(`${savedPrefix}/`);

export async function imageRequestOf(
  instance: Pick<Instance, 'archive' | 'spec' | 'ownerId'>,
  drivers: RegionDrivers,
  credentialsFor: CredentialsFor,
): Promise<ImageRequest> {
  const ref = imageRefOf(instance);
  if (isKept(drivers, ref)) return { ref, credentials: drivers.archiveCredentials };
  if (instance.archive !== null || instance.spec.image.isPublic) return { ref };
  const { ownerId } = instance;
  return { ref, ownerId, credentials: await credentialsFor(ownerId, registryServerOf(ref)) };
}

/** Says what its owner can do, where credentials are what is missing. */
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

import type { EngineSpec, RegistryCredentials } from '../../contract.ts';
import { registryServerOf } from '../../../domain/regions/image-ref.ts';
import type { Secret } from '../../../kubernetes/api-objects.ts';
import { partMetadata, pullSecretName, type PartOwner } from './object-names.ts';

/** Login of the image's registry, as the kubelet reads it. */
export function dockerConfig(ref: string, { username, secret }: RegistryCredentials): string {
  const server = registryServerOf(ref);
  const auth = Buffer.from(`${username}:${secret}`).toString('base64');
  // The kubelet knows Docker Hub by its old address.
  const key = server === 'docker.io' ? 'https://index.docker.io/v1/' : server;
  return JSON.stringify({ auths: { [key]: { username, password: secret, auth } } });
}

export const pullSecretData = (ref: string, credentials: RegistryCredentials): Pick<Secret, 'type' | 'data'> => ({
  type: 'kubernetes.io/dockerconfigjson',
  data: { '.dockerconfigjson': Buffer.from(dockerConfig(ref, credentials)).toString('base64') },
});

export const pullSecret = (
  spec: Pick<EngineSpec, 'id' | 'ownerId' | 'imageRef'>,
  credentials: RegistryCredentials,
  owner: PartOwner,
): Secret => ({
  metadata: partMetadata(spec, pullSecretName(spec.id), owner),
  ...pullSecretData(spec.imageRef, credentials),
});

/** Registries of a simulated host, and the images it stores. */
import { createHash } from 'node:crypto';
import type { ImageFacts } from '../../domain/regions/image-facts.ts';
import type { InstanceId, UserId } from '../../domain/kernel/ids.ts';
import type { RegistryCredentials } from '../contract.ts';

export interface StoredImage {
  rootDisk: readonly string[];
  bytes: number;
  facts?: Partial<ImageFacts> | undefined;
  saved?: { installation: string; id: InstanceId; ownerId: UserId; createdAtMs: number } | undefined;
}

/** Resolves an image that is absent; also asked before a push, which ignores not found. */
export type ImageSource = (
  ref: string,
  credentials?: RegistryCredentials,
) => { kind: 'found'; bytes: number; facts?: Partial<ImageFacts> } | { kind: 'not_found' | 'denied' | 'unreachable' };

/**
 * Finds every image but those of reserved registries (RFC 2606), one per way to fail.
 * `private.invalid` accepts any credentials but the secret `wrong`.
 */
export const defaultImages: ImageSource = (ref, credentials) => {
  const isPrivate = ref.startsWith('private.invalid/');
  if (ref.startsWith('missing.invalid/')) return { kind: 'not_found' };
  if (ref.startsWith('denied.invalid/')) return { kind: 'denied' };
  if (isPrivate && (credentials === undefined || credentials.secret === 'wrong')) return { kind: 'denied' };
  if (ref.startsWith('unreachable.invalid/')) return { kind: 'unreachable' };
  return { kind: 'found', bytes: defaultImageBytes };
};

const defaultImageBytes = 200_000_000;
export const pulledImage = (bytes = defaultImageBytes, facts?: Partial<ImageFacts>): StoredImage => ({
  rootDisk: [],
  bytes,
  ...(facts === undefined ? {} : { facts }),
});

export const digestOf = (ref: string): string => `sha256:${createHash('sha256').update(ref).digest('hex')}`;

export const factsOf = (ref: string, { bytes, facts }: StoredImage): ImageFacts => ({
  digests: [digestOf(ref)],
  createdAtMs: 0,
  sizeBytes: bytes,
  declares: { entrypoint: [], command: [], user: '', workingDir: '', ports: [], volumes: [], healthCheck: [] },
  contains: { shell: true, sshd: true, jupyter: true },
  ...facts,
});

/** Control files as a Secret, which the kubelet replaces in one step. */
import { createHash } from 'node:crypto';
import type { ControlFile, EngineSpec } from '../../contract.ts';
import type { Secret } from '../../../kubernetes/api-objects.ts';
import { objectName, partMetadata, type PartOwner } from './object-names.ts';

/** Hidden file that tells which files a Pod has. */
export const DIGEST_FILE = '.digest';

const FILE_NAME = /^[A-Za-z0-9_][A-Za-z0-9._-]*$/;

export function filesDigest(files: readonly ControlFile[]): string {
  const hash = createHash('sha256');
  for (const { name, content, mode } of files.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
    hash.update(JSON.stringify([name, content, mode]));
  return hash.digest('hex').slice(0, 32);
}

export function controlSecret(spec: EngineSpec, owner: PartOwner): Secret {
  const invalid = spec.files.find(({ name }) => !FILE_NAME.test(name));
  if (invalid !== undefined) throw new Error(`a control file cannot have the name "${invalid.name}"`);
  const encode = (text: string): string => Buffer.from(text).toString('base64');
  return {
    metadata: partMetadata(spec, objectName(spec.id), owner),
    type: 'Opaque',
    data: {
      ...Object.fromEntries(spec.files.map(({ name, content }) => [name, encode(content)])),
      [DIGEST_FILE]: encode(filesDigest(spec.files)),
    },
  };
}

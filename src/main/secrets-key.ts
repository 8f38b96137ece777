/**
 * Key that seals registry secrets; stored outside of the database, so a copy of either opens
 * nothing.
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../domain/unknown-error.ts';
import { writeAtomically } from './write-atomically.ts';

const FILE = 'secrets.key';
const KEY_BYTES = 32;

/** Generates the key at the first start. Needs the lock of the data folder. */
export async function ensureSecretsKey(dataFolder: string): Promise<Uint8Array> {
  const file = join(dataFolder, FILE);
  const stored = await storedKey(file);
  if (stored?.length === KEY_BYTES) return stored;
  if (stored !== null) {
    const lost = 'without the key, registry credentials must be registered again';
    throw new Error(
      `${file} has ${stored.length} bytes and must have ${KEY_BYTES}: put it back from a backup, or remove it (${lost}).`,
    );
  }
  const key = randomBytes(KEY_BYTES);
  await writeAtomically(file, key);
  return key;
}

async function storedKey(file: string): Promise<Uint8Array | null> {
  try {
    return await readFile(file);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}

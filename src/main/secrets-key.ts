/** The key that registry secrets are sealed with: beside the database and not in it, so that a copy of the one does not open the other. */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeWhole } from './write-whole.ts';

const FILE = 'secrets.key';
const KEY_BYTES = 32;

/** Drawn at the first start. The folder is locked: nobody else draws one at the same time. */
export async function ensureSecretsKey(dataFolder: string): Promise<Uint8Array> {
  const file = join(dataFolder, FILE);
  const kept = await keptIn(file);
  if (kept?.length === KEY_BYTES) return kept;
  if (kept !== null) {
    const lost = 'without it the registry credentials have to be registered anew';
    throw new Error(
      `${file} has ${kept.length} bytes and must have ${KEY_BYTES}: put it back from a backup, or remove it (${lost}).`,
    );
  }
  const key = randomBytes(KEY_BYTES);
  await writeWhole(file, key);
  return key;
}

async function keptIn(file: string): Promise<Uint8Array | null> {
  try {
    return await readFile(file);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

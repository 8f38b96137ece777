/** Secrets in files of the data folder, readable by their owner only: the first password. */
import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { InternalAccess } from '../control/access/access.ts';
import { errorCode } from '../domain/kernel/unknown-error.ts';

const MIN_PASSWORD_LENGTH = 8;
/** Dollars of the first account, until the ledger exists. */
const ADMIN_BALANCE = 1_000_000;

export interface ShownPassword {
  text: string;
  file: string;
}

/** Ensures the account `admin`. Returns the password to show, only if it was generated just now. */
export async function ensureAdmin(
  access: Pick<InternalAccess, 'ensureAdmin'>,
  { dataFolder, adminPassword }: { dataFolder: string; adminPassword: string | null },
): Promise<ShownPassword | null> {
  if (adminPassword !== null) {
    await access.ensureAdmin({ password: adminPassword, balance: ADMIN_BALANCE });
    return null;
  }
  const file = join(dataFolder, 'admin-password');
  const stored = (await readStored(file))?.toString('utf8').trim() ?? '';
  // A shorter file is the rest of a crash or a full disk.
  const text = stored.length >= MIN_PASSWORD_LENGTH ? stored : randomBytes(12).toString('base64url');
  if (text !== stored) await writeAtomically(file, `${text}\n`);
  const made = await access.ensureAdmin({ password: text, balance: ADMIN_BALANCE });
  if (!made && text !== stored) await rm(file);
  return made ? { text, file } : null;
}

export async function readStored(file: string): Promise<Buffer | null> {
  try {
    return await readFile(file);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}

/** Creates or replaces the file with mode 0600. */
export async function writeAtomically(file: string, content: string | Uint8Array): Promise<void> {
  const fresh = `${file}.new`;
  await rm(fresh, { force: true });
  await using handle = await open(fresh, 'wx', 0o600);
  await handle.writeFile(content);
  await handle.sync();
  await rename(fresh, file);
  // The rename is durable only after the folder is synced.
  await using folder = await open(dirname(file), 'r');
  await folder.sync();
}

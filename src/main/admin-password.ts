/** Password of the first account: given, or generated once and stored in a 0600 file. */
import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../domain/unknown-error.ts';
import type { InternalAccess } from '../control/access/access.ts';
import { writeAtomically } from './write-atomically.ts';

const FILE = 'admin-password';
const MIN_LENGTH = 8;
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
  const file = join(dataFolder, FILE);
  if (adminPassword !== null) {
    await access.ensureAdmin({ password: adminPassword, balance: ADMIN_BALANCE });
    return null;
  }
  const stored = await storedPassword(file);
  // A shorter file is the rest of a crash or a full disk.
  const text = stored.length >= MIN_LENGTH ? stored : randomBytes(12).toString('base64url');
  if (text !== stored) await writeAtomically(file, `${text}\n`);
  const made = await access.ensureAdmin({ password: text, balance: ADMIN_BALANCE });
  if (!made && text !== stored) await rm(file);
  return made ? { text, file } : null;
}

async function storedPassword(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return '';
    throw error;
  }
}

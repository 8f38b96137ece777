/** The first account's password: given, or generated once and kept in a file of its owner alone, so that a lost terminal loses nothing. */
import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { InternalAccess } from '../control/access/access.ts';
import { writeWhole } from './write-whole.ts';

const FILE = 'admin-password';
const SHORTEST = 8;
/** Dollars of the first account: it is the operator's own, and the ledger comes later. */
const ADMIN_BALANCE = 1_000_000;

export interface ShownPassword {
  text: string;
  file: string;
}

/** Makes the account `admin` where there is none. Answers the password to show: only when it was made, and not given. */
export async function ensureAdmin(
  access: Pick<InternalAccess, 'ensureAdmin'>,
  { dataFolder, adminPassword }: { dataFolder: string; adminPassword: string | null },
): Promise<ShownPassword | null> {
  const file = join(dataFolder, FILE);
  if (adminPassword !== null) {
    await access.ensureAdmin({ password: adminPassword, balance: ADMIN_BALANCE });
    return null;
  }
  const kept = await keptIn(file);
  // What is too short is what a crash or a full disk left of one.
  const text = kept.length >= SHORTEST ? kept : randomBytes(12).toString('base64url');
  if (text !== kept) await writeWhole(file, `${text}\n`);
  const made = await access.ensureAdmin({ password: text, balance: ADMIN_BALANCE });
  if (!made && text !== kept) await rm(file);
  return made ? { text, file } : null;
}

async function keptIn(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  }
}

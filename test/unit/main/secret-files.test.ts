import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ensureAdmin } from '../../../src/main/secret-files.ts';

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'berth-admin-'));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Accounts before (`there: false`) or after the first start. */
function accounts({ there }: { there: boolean }) {
  const given: string[] = [];
  const ensure = async ({ password }: { password: string }): Promise<boolean> => {
    given.push(password);
    return !there;
  };
  return { given, access: { ensureAdmin: ensure } };
}

test('prints the generated password once and stores it readable by its owner only', async () => {
  const dataFolder = await folder();
  const { access, given } = accounts({ there: false });
  const shown = await ensureAdmin(access, { dataFolder, adminPassword: null });
  expect(shown?.text).toHaveLength(16);
  expect(given).toEqual([shown?.text]);
  const file = join(dataFolder, 'admin-password');
  expect(await readFile(file, 'utf8')).toBe(`${shown?.text}\n`);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

test('a start interrupted before the account existed reuses its stored password', async () => {
  const dataFolder = await folder();
  await writeFile(join(dataFolder, 'admin-password'), 'kept password\n');
  const { access, given } = accounts({ there: false });
  expect((await ensureAdmin(access, { dataFolder, adminPassword: null }))?.text).toBe('kept password');
  expect(given).toEqual(['kept password']);
});

test.each(['', '\n', 'short\n'])('a partial password file (%j) is never used', async (left) => {
  const dataFolder = await folder();
  await writeFile(join(dataFolder, 'admin-password'), left);
  const { access, given } = accounts({ there: false });
  const shown = await ensureAdmin(access, { dataFolder, adminPassword: null });
  expect(given).toEqual([shown?.text]);
  expect(shown?.text.length).toBeGreaterThanOrEqual(8);
});

test('prints and stores no password when the account exists', async () => {
  const dataFolder = await folder();
  const { access } = accounts({ there: true });
  expect(await ensureAdmin(access, { dataFolder, adminPassword: null })).toBeNull();
  await expect(readFile(join(dataFolder, 'admin-password'))).rejects.toThrow('ENOENT');
});

test('neither prints nor stores a given password', async () => {
  const dataFolder = await folder();
  const { access, given } = accounts({ there: false });
  expect(await ensureAdmin(access, { dataFolder, adminPassword: 'from the environment' })).toBeNull();
  expect(given).toEqual(['from the environment']);
  await expect(readFile(join(dataFolder, 'admin-password'))).rejects.toThrow('ENOENT');
});

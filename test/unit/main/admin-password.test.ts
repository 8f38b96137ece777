import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ensureAdmin } from '../../../src/main/admin-password.ts';

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'berth-admin-'));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Accounts as they are before the first start, or after it. */
function accounts({ there }: { there: boolean }) {
  const given: string[] = [];
  const ensure = async ({ password }: { password: string }): Promise<boolean> => {
    given.push(password);
    return !there;
  };
  return { given, access: { ensureAdmin: ensure } };
}

test('the generated password is shown once and kept for its owner alone', async () => {
  const dataFolder = await folder();
  const { access, given } = accounts({ there: false });
  const shown = await ensureAdmin(access, { dataFolder, adminPassword: null });
  expect(shown?.text).toHaveLength(16);
  expect(given).toEqual([shown?.text]);
  const file = join(dataFolder, 'admin-password');
  expect(await readFile(file, 'utf8')).toBe(`${shown?.text}\n`);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
});

test('a start that was broken off before the account was made goes on with the password it kept', async () => {
  const dataFolder = await folder();
  await writeFile(join(dataFolder, 'admin-password'), 'kept password\n');
  const { access, given } = accounts({ there: false });
  expect((await ensureAdmin(access, { dataFolder, adminPassword: null }))?.text).toBe('kept password');
  expect(given).toEqual(['kept password']);
});

test.each(['', '\n', 'short\n'])('what a crash left of the file (%j) never becomes the password', async (left) => {
  const dataFolder = await folder();
  await writeFile(join(dataFolder, 'admin-password'), left);
  const { access, given } = accounts({ there: false });
  const shown = await ensureAdmin(access, { dataFolder, adminPassword: null });
  expect(given).toEqual([shown?.text]);
  expect(shown?.text.length).toBeGreaterThanOrEqual(8);
});

test('where the account is there already, no password is shown, and none that is wrong is kept', async () => {
  const dataFolder = await folder();
  const { access } = accounts({ there: true });
  expect(await ensureAdmin(access, { dataFolder, adminPassword: null })).toBeNull();
  await expect(readFile(join(dataFolder, 'admin-password'))).rejects.toThrow('ENOENT');
});

test('a given password is neither shown nor kept', async () => {
  const dataFolder = await folder();
  const { access, given } = accounts({ there: false });
  expect(await ensureAdmin(access, { dataFolder, adminPassword: 'from the environment' })).toBeNull();
  expect(given).toEqual(['from the environment']);
  await expect(readFile(join(dataFolder, 'admin-password'))).rejects.toThrow('ENOENT');
});

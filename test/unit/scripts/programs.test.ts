/** The guard of `test/fixtures/programs.ts`, which each test file has. */
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { needsProgram } from '../../fixtures/programs.ts';

const unlisted = /a test runs cowsay, which nothing installs for it/;

test.for(['cowsay', '/usr/games/../bin/cowsay', '/usr/local/bin/cowsay'])(
  'a test that runs %s, which nothing installs, fails on every machine',
  async (program) => {
    expect(() => spawn(program)).toThrow(unlisted);
    expect(() => spawnSync(program)).toThrow(unlisted);
    expect(() => execFileSync(program)).toThrow(unlisted);
    await expect(async () => promisify(execFile)(program)).rejects.toThrow(unlisted);
  },
);

test('a test that needs Node alone runs what its project does not install only after asking', () => {
  expect(() => spawn('rsync')).toThrow(/needs Node alone.*needsProgram/);
  expect(() => needsProgram('cowsay', { skip: () => {} })).toThrow(/cowsay is not in scripts\/lib\/needs\.mjs/);
});

test('a test that asks for a program is skipped by name without it', () => {
  const skips: unknown[] = [];
  needsProgram('sshd', { skip: (...given: unknown[]) => void skips.push(given) });
  expect(skips).toEqual([[expect.any(Boolean), expect.stringMatching(/^sshd is not installed: npm test installs it/)]]);
});

test('a test runs programs of every system, and those that it has brought', () => {
  expect(execFileSync('sh', ['-c', 'echo said'], { encoding: 'utf8' })).toBe('said\n');
  expect(execFileSync(process.execPath, ['-p', '1'], { encoding: 'utf8' })).toBe('1\n');
});

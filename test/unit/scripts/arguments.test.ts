/** Arguments of the npm commands, in processes: nothing is installed or started. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';

const scripts = path.join(import.meta.dirname, '../../../scripts');
const run = (name: string, ...args: string[]) =>
  spawnSync(process.execPath, [path.join(scripts, `${name}.mjs`), ...args], { encoding: 'utf8', timeout: 60_000 });

test.each(['up', 'dev', 'first', 'check', 'bench', 'simulate', 'structure', 'words'])(
  'npm run %s answers --help, and refuses an unknown argument',
  (name) => {
    const help = run(name, '--help');
    expect(help).toMatchObject({ status: 0, stderr: '' });
    expect(help.stdout).toMatch(new RegExp(`^npm run ${name} `));
    const unknown = run(name, '--nodeports=3');
    expect(unknown).toMatchObject({ status: 1, stdout: '' });
    expect(unknown.stderr).toMatch(new RegExp(`^Unknown option '--nodeports'[^]*\\n\\nnpm run ${name} `));
  },
);

test('npm test answers --help, and names the levels that exist', () => {
  expect(run('test', '--help')).toMatchObject({ status: 0, stdout: expect.stringMatching(/^npm test /) });
  const level = run('test', '--level', 'tall');
  expect(level).toMatchObject({ status: 1, stderr: '--level is tall: it must be one of short, long, soak\n' });
});

test('npm run simulate refuses what is no number', () => {
  expect(run('simulate', '--seeds', 'many').stderr).toMatch(/^--seeds is many: it must be a whole number\n/);
});

test('npm run bench takes the options that its README names', () => {
  expect(run('bench', 'hostile', '--short', '--only=csv', '--million', '--help')).toMatchObject({ status: 0 });
});

import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const root = path.resolve(fileURLToPath(new URL('../../..', import.meta.url)));

test('counts and names every failure, and names tests that passed at the second try only', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'berth-reporter-'));
  const file = path.join(folder, 'totals.json');
  const reporter = path.join(root, 'scripts/totals-reporter.ts');
  const args = [
    path.join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '--root',
    path.join(root, 'test/unit/scripts/misfits'),
  ];
  const code = await new Promise((resolve) => {
    const options = { cwd: root, env: { ...process.env, BERTH_TOTALS_FILE: file } };
    execFile(process.execPath, [...args, `--reporter=${reporter}`], options, (error) => resolve(error?.code));
  });
  expect(code).toBe(1);
  expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({
    passed: 3,
    failed: [
      { name: 'an uncaught error', note: 'uncaught' },
      { name: 'does-not-load.misfit.ts', note: 'this file does not load' },
      { name: 'tests.misfit.ts > a throwing hook', note: 'the hook' },
      { name: 'tests.misfit.ts > fails', note: expect.stringContaining('expected 1 to be 2') },
    ],
    unsteady: [{ name: 'tests.misfit.ts > passes at the second try', note: 'not at the first' }],
    skipped: [
      { name: 'tests.misfit.ts > says why it is left out', note: 'there is no GPU' },
      { name: 'tests.misfit.ts > is to do', note: 'to do' },
      { name: 'tests.misfit.ts > a throwing hook > is left out' },
    ],
  });
  rmSync(folder, { recursive: true, force: true });
});

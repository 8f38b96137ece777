/** Output of the commands: the totals at the end of the tests. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addUp, closingLines, totalsOfRun } from '../../../scripts/lib/totals.mjs';

describe('totals', () => {
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'berth-output-'));
  });

  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  function run(totals: unknown, code: number) {
    const file = path.join(folder, 'totals.json');
    writeFileSync(file, typeof totals === 'string' ? totals : JSON.stringify(totals));
    return totalsOfRun({ project: 'parts', file, code });
  }

  const clean = { passed: 3, failed: [], unsteady: [], skipped: [] };
  const broken = { name: 'c.test.ts > three', note: 'expected 1 to be 2\n\n  seen: 1' };

  test('add up all runs, and name skipped, retried and failed tests with reasons; the last line is the sum', () => {
    const skipped = [{ name: 'a.test.ts > one', note: 'no GPU here' }, { name: 'b.test.ts > two' }];
    const unsteady = [{ name: 'd.test.ts > four', note: 'too late' }];
    const totals = addUp([clean, { passed: 4, failed: [broken], unsteady, skipped }]);
    expect(closingLines(totals)).toEqual([
      'skipped: a.test.ts > one (no GPU here)',
      'skipped: b.test.ts > two',
      'passed on the second attempt: d.test.ts > four (too late)',
      'failed: c.test.ts > three (expected 1 to be 2 seen: 1)',
      '7 passed, 1 failed, 2 skipped',
    ]);
  });

  test('cut a long reason', () => {
    const long = { ...broken, note: 'x'.repeat(100_000) };
    expect(closingLines({ ...clean, failed: [long] })[0]?.length).toBeLessThan(1000);
  });

  test('count an interrupted run as a failure, with or without results', () => {
    const reported = [{ name: 'the tests of parts', note: expect.stringMatching(/without totals/) }];
    expect(run('{"passed": 3', 0).failed).toEqual(reported);
    expect(totalsOfRun({ project: 'parts', file: path.join(folder, 'none'), code: 137 }).failed).toEqual(reported);
  });

  test('count a failed run without a failed test as a failure', () => {
    const reported = [{ name: 'the run of parts', note: expect.stringMatching(/no test failed/) }];
    expect(run(clean, 1)).toEqual({ ...clean, failed: reported });
    expect(run({ ...clean, failed: [broken] }, 1)).toEqual({ ...clean, failed: [broken] });
    expect(run(clean, 0)).toEqual(clean);
  });
});

/**
 * Output of the commands: the totals at the end of the tests, the log of the development server.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readableLine, readableLog } from '../../../scripts/lib/readable-log.mjs';
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

describe('the log of the development server', () => {
  test('shows an entry as time, level, message and members', () => {
    const entry = {
      level: 40,
      time: Date.UTC(2026, 0, 5, 10, 20, 30),
      pid: 1,
      hostname: 'h',
      msg: 'slow',
      ms: 12,
      what: 'a b',
    };
    expect(readableLine(JSON.stringify(entry), false)).toMatch(/^\d\d:\d\d:\d\d warn {2}slow ms=12 what="a b"$/);
  });

  test('shows the stack of an error below its entry', () => {
    const entry = {
      level: 50,
      time: 1,
      msg: 'lost',
      err: { type: 'Error', message: 'x', stack: 'Error: x\n    at f' },
    };
    expect(readableLine(JSON.stringify(entry), false)).toMatch(/error lost \n {2}Error: x\n {6}at f$/);
  });

  test('passes every other line, and joins lines that arrive in pieces', () => {
    const lines: string[] = [];
    const log = readableLog({ write: (text) => lines.push(text), colors: false });
    for (const piece of ['Restar', "ting 'src'\n{not json}\n", '{"level":30,"ti', 'me":1,"msg":"up"}\n', '{"a":1}\n'])
      log(piece);
    expect(lines).toEqual(["Restarting 'src'\n", '{not json}\n', expect.stringMatching(/info {2}up\n$/), '{"a":1}\n']);
  });
});

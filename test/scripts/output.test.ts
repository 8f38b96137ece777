/** What the commands print: the totals at the end of the tests, the log of the development server. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readableLine, readableLog } from '../../scripts/lib/readable-log.mjs';
import { addUp, closingLines, totalsOfRun } from '../../scripts/lib/totals.mjs';

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

  test('of all runs are added up, the skipped are named with their reason, the last line is the sum', () => {
    const skipped = [{ name: 'a.test.ts > one', note: 'no GPU here' }, { name: 'b.test.ts > two' }];
    const totals = addUp([
      { passed: 3, failed: 0, skipped: [] },
      { passed: 4, failed: 1, skipped },
    ]);
    expect(closingLines(totals)).toEqual([
      'skipped: a.test.ts > one (no GPU here)',
      'skipped: b.test.ts > two',
      '7 passed, 1 failed, 2 skipped',
    ]);
  });

  test('a run that broke off counts as a failure, whatever it left', () => {
    expect(run('{"passed": 3', 0)).toMatchObject({
      totals: { failed: 1 },
      fault: expect.stringMatching(/before they had totals/),
    });
    expect(totalsOfRun({ project: 'parts', file: path.join(folder, 'none'), code: 137 })).toMatchObject({
      totals: { failed: 1 },
    });
  });

  test('a run that failed without a failed test counts as a failure, and only then', () => {
    expect(run({ passed: 3, failed: 0, skipped: [] }, 1)).toMatchObject({
      totals: { passed: 3, failed: 1 },
      fault: expect.stringMatching(/no test of parts/),
    });
    expect(run({ passed: 3, failed: 2, skipped: [] }, 1)).toEqual({ totals: { passed: 3, failed: 2, skipped: [] } });
    expect(run({ passed: 3, failed: 0, skipped: [] }, 0)).toEqual({ totals: { passed: 3, failed: 0, skipped: [] } });
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

  test('lets every other line pass, and puts lines together that came in pieces', () => {
    const lines: string[] = [];
    const log = readableLog({ write: (text) => lines.push(text), colors: false });
    for (const piece of ['Restar', "ting 'src'\n{not json}\n", '{"level":30,"ti', 'me":1,"msg":"up"}\n', '{"a":1}\n'])
      log(piece);
    expect(lines).toEqual(["Restarting 'src'\n", '{not json}\n', expect.stringMatching(/info {2}up\n$/), '{"a":1}\n']);
  });
});

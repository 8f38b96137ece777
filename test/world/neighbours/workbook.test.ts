/** openpyxl reads the workbook of a statement: texts, numbers and times have their types. */
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { xlsx } from '../../../src/edge/http/xlsx.ts';
import { findPython, openPython, type Python } from './python.ts';

let python: Python | undefined;
beforeAll(async () => {
  const found = await findPython('3');
  if (found !== null) python = await openPython(found, ['openpyxl==3.1.5']);
}, 900_000);
afterAll(() => python?.remove());

const PROGRAM = `
import json, sys
from openpyxl import load_workbook

book = load_workbook(sys.argv[1])
print(json.dumps({sheet.title: [[[cell.data_type, str(cell.value)] for cell in row] for row in sheet.iter_rows()] for sheet in book}))
`;

test('openpyxl reads texts, numbers and times of a workbook by their types', async ({ skip }) => {
  if (python === undefined) return skip('openpyxl runs on Python 3, which is not installed');
  const cells = [
    '=HYPERLINK("https://evil.test")',
    'Müller ☃ 日本',
    -0.000001,
    1_234.5,
    { wallMs: Date.UTC(2026, 10, 1, 6) },
  ];
  const file = path.join(python.folder, 'statement.xlsx');
  const program = path.join(python.folder, 'read.py');
  await writeFile(
    file,
    xlsx([
      { name: 'Charges', head: ['a', 'b'], rows: [[cells]] },
      { name: 'Empty', head: [], rows: [] },
    ]),
  );
  await writeFile(program, PROGRAM);
  const { Charges: rows, ...others } = JSON.parse(await python.run('python', [program, file])) as Record<
    string,
    string[][][]
  >;
  expect(rows?.[1]).toEqual([
    ['s', '=HYPERLINK("https://evil.test")'],
    ['s', 'Müller ☃ 日本'],
    ['n', '-1e-06'],
    ['n', '1234.5'],
    ['d', '2026-11-01 06:00:00'],
  ]);
  expect(Object.keys(others)).toEqual(['Empty']);
});

/** Workbooks: texts stay texts, times are wall times, and no sheet is longer than one may be. */
import { strFromU8, unzipSync } from 'fflate';
import { expect, test } from 'vitest';
import { xlsx, type Sheet } from '../../../src/edge/http/xlsx.ts';

async function partsOf(sheets: readonly Sheet[]): Promise<Record<string, string>> {
  const bytes = Buffer.concat(await Array.fromAsync(xlsx(sheets)));
  return Object.fromEntries(Object.entries(unzipSync(bytes)).map(([path, content]) => [path, strFromU8(content)]));
}

test('writes formulas and control characters as text, numbers as numbers, and times by days', async () => {
  const cells = ['=1+1', 'a\u0000\u0008<b>', '\ud800', 0.1, -1e-6, null, { wallMs: Date.UTC(2026, 10, 1, 6) }];
  const parts = await partsOf([{ name: 'One & only', head: ['h'], rows: [[cells]] }]);
  const sheet = parts['xl/worksheets/sheet1.xml'] ?? '';
  expect(sheet).toContain('<is><t xml:space="preserve">=1+1</t></is>');
  for (const lost of ['<f>', '\u0000', '\u0008', '\ud800']) expect(sheet).not.toContain(lost);
  expect(sheet).toContain('a&#60;b&#62;');
  expect(sheet).toContain('<c><v>0.1</v></c><c><v>-0.000001</v></c><c/><c s="1"><v>46327.25</v></c></row></sheetData>');
  expect(parts['xl/workbook.xml']).toContain('name="One &#38; only"');
});

test('begins another sheet after the rows that one may have', async () => {
  const batch = Array.from({ length: 2 ** 18 }, () => [1]);
  const parts = await partsOf([{ name: 'Long', head: ['n'], rows: [batch, batch, batch, batch] }]);
  const rows = ['sheet1', 'sheet2'].map((name) => (parts[`xl/worksheets/${name}.xml`] ?? '').split('<row>').length - 1);
  expect(rows).toEqual([3 * 2 ** 18 + 1, 2 ** 18 + 1]);
  expect(parts['xl/workbook.xml']).toMatch(/name="Long" sheetId="1".*name="Long 2" sheetId="2"/);
  expect(parts['[Content_Types].xml']).toContain('/xl/worksheets/sheet2.xml');
});

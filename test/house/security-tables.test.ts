/** The tables of standards in docs/security.md name tests that exist, or a reason. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';

const root = path.resolve(import.meta.dirname, '../..');
const standards = readFileSync(path.join(root, 'docs/security.md'), 'utf8').split(/^## Standards$/m)[1] ?? '';

const rowsOf = (heading: string): { name: string; heldBy: string[] }[] =>
  (standards.split(/^### /m).find((section) => section.startsWith(heading)) ?? '').split('\n').flatMap((line) => {
    const [, name = '', heldBy = ''] = /^\| (.+?) \| (.+) \|$/.exec(line) ?? [];
    return /^(API\d+|V\d+\.\d+) /.test(name)
      ? [{ name, heldBy: heldBy.split(/; (?=`|Not |Documented|Operator)/) }]
      : [];
  });

const TEST = /^`([\w/-]+)`: (.+)$/;
const REASON = /^(Not applicable|Not met|Documented|Operator)\b.{10,}/;
const TITLE = /(?:test|longTest|it)(?:\.each\([^)]*\)|\.each<[^]*?>\([^)]*\))?\(\s*(['"`])(.+?)\1/g;

/** Null: it holds. */
function faultOf(part: string): string | null {
  const [, file = '', title = ''] = TEST.exec(part) ?? [];
  if (file === '') return REASON.test(part) ? null : 'neither a test nor a reason';
  const full = path.join(root, 'test', `${file}.test.ts`);
  if (!existsSync(full)) return 'no such file';
  const titles = [...readFileSync(full, 'utf8').matchAll(TITLE)].map(([, , text = '']) => text.replaceAll('\\', ''));
  return titles.some((text) => text.includes(title)) ? null : 'no such title';
}

describe.each([
  ['OWASP API Security Top 10', 10],
  ['OWASP ASVS', 60],
] as const)('the table of %s in docs/security.md', (heading, least) => {
  const rows = rowsOf(heading);

  test('names a test that exists, or a reason, in each row', () => {
    expect(rows.length).toBeGreaterThanOrEqual(least);
    const faults = rows.flatMap(({ name, heldBy }) =>
      heldBy.flatMap((part) => {
        const fault = faultOf(part);
        return fault === null ? [] : [`${name}: ${fault}: ${part}`];
      }),
    );
    expect(faults).toEqual([]);
    expect(new Set(rows.map(({ name }) => name)).size).toBe(rows.length);
  });
});

test('a missing file, a missing title and an empty reason are faults', () => {
  for (const part of ['`http/none`: x', '`http/api/auth`: no such promise', 'Not met: x', 'yes'])
    expect([part, faultOf(part)]).toEqual([part, expect.any(String)]);
  expect(faultOf('`http/api/auth`: only an administrator creates accounts')).toBeNull();
});

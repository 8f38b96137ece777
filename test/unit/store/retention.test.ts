import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { rowsEnd } from '../../../src/store/db/retention.ts';

test('lists each table whose rows expire, and the books, in the operating guide', () => {
  const guide = readFileSync(new URL('../../../docs/operate.md', import.meta.url), 'utf8');
  const section = guide.split('### What is deleted, and when')[1]?.split('\n##')[0] ?? '';
  const documented = Object.entries(rowsEnd).flatMap(([table, end]) => (end === 'living' ? [] : [table]));
  expect(documented.filter((table) => !section.includes(`\`${table}\``))).toEqual([]);
});

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { importCycles } from './cycles.ts';
import { atMost120LinesAFunction, parse } from './rules.ts';

const root = path.resolve(fileURLToPath(new URL('../..', import.meta.url)));
const sources = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => path.posix.join('src', file.replaceAll(path.sep, '/')))
  .map((file) => parse(file, readFileSync(path.join(root, file), 'utf8')));

const cyclesOf = (files: Record<string, string>): string[] =>
  importCycles(Object.entries(files).map(([file, text]) => parse(file, text)));

test.each([
  [{ 'src/a.ts': "import { b } from './b.ts';", 'src/b.ts': "import { a } from './a.ts';" }, 'src/a.ts ↔ src/b.ts'],
  [
    { 'src/a.ts': "import type { B } from './b.ts';", 'src/b.ts': "export type { A } from './a.ts';" },
    'src/a.ts ↔ src/b.ts',
  ],
  [
    {
      'src/a.ts': "import './b.ts';",
      'src/b.ts': "import './c/c.ts';",
      'src/c/c.ts': "let a: import('../a.ts').A;",
    },
    'src/a.ts ↔ src/b.ts ↔ src/c/c.ts',
  ],
  [{ 'src/a.ts': "import { a } from './a.ts';" }, 'src/a.ts'],
])('finds the cycle in %j', (files, cycle) => {
  expect(cyclesOf(files)).toEqual([cycle]);
});

test('finds none where two files import a third', () => {
  const files = {
    'src/a.ts': "import './b.ts'; import './c.ts';",
    'src/b.ts': "import './c.ts';",
    'src/c.ts': '// ./a.ts',
  };
  expect(cyclesOf(files)).toEqual([]);
});

test('no files of src import each other in a cycle, types included', () => {
  expect(importCycles(sources)).toEqual([]);
});

const long = (lines: number): string => `{\n${'f();\n'.repeat(lines - 2)}}`;

test.each([`function a() ${long(121)}`, `const a = () => ${long(121)};`, `const a = { b() ${long(121)} };`])(
  'finds a function of more than 120 lines',
  (text) => {
    expect(atMost120LinesAFunction(parse('src/control/a.ts', text))).toHaveLength(1);
  },
);

test('accepts a function of 120 lines', () => {
  expect(atMost120LinesAFunction(parse('src/control/a.ts', `function a() ${long(120)}`))).toEqual([]);
});

test('no function of src has more than 120 lines', () => {
  const files = sources.filter((file) => file.path.startsWith('src/'));
  expect(files.flatMap((file) => atMost120LinesAFunction(file).map((one) => `${file.path}:${one}`))).toEqual([]);
});

/**
 * Each file of the long level has a proof of its promise in `npm test`, and a row in
 * `docs/testing.md`.
 */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.join(import.meta.dirname, '../..');
const longOnly: Record<string, string> = JSON.parse(readFileSync(path.join(root, 'test/long-only.json'), 'utf8'));

test('each file of the long level exists, and its proof in npm test too', () => {
  const files = Object.entries(longOnly).flat();
  expect(files.filter((file) => !existsSync(path.join(root, file)))).toEqual([]);
  expect(Object.values(longOnly).filter((proof) => proof in longOnly)).toEqual([]);
});

test('docs/testing.md names each of them with its proof', () => {
  const rows = readFileSync(path.join(root, 'docs/testing.md'), 'utf8').split('\n');
  const short = (file: string): string => file.replace('test/', '').replace('.test.ts', '');
  const isNamed = ([file, proof]: [string, string]): boolean =>
    rows.some((row) => row.includes(`\`${short(file)}\``) && row.includes(`\`${short(proof)}\``));
  expect(Object.entries(longOnly).filter((entry) => !isNamed(entry))).toEqual([]);
});

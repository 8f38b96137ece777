import { expect, test } from 'vitest';
import { promptName } from '../../../src/domain/compute/prompt-name.ts';

test.each([
  ['work', 'work'],
  ['my first try', 'my-first-try'],
  ['señor Bach 𝒳', 'señor-Bach-𝒳'],
  ['$(reboot) `id` \\w "x"', 'reboot-id-w-x'],
  ['!!!', 'instance'],
  ['a'.repeat(128), 'a'.repeat(24)],
])('shows %s as %s', (name, shown) => {
  expect(promptName(name)).toBe(shown);
});

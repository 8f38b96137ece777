import { expect, test } from 'vitest';
import { passwordFault } from '../../../src/domain/access/password.ts';

const anna = { username: 'annabell', email: 'anna.bell@example.org' };
const common: ReadonlySet<string> = new Set(['password1', 'qwertyuiop']);
const faultOf = (password: string): string | null => passwordFault(password, anna, common);

test('accepts passphrases, random text and other scripts, without rules about kinds of characters', () => {
  for (const password of [
    'correct horse battery staple',
    'long enough',
    'kf83.xwq',
    '19283746',
    'annabell rides at dawn',
    'пароль моря',
    '水曜日の午後は静かだ',
    'x'.repeat(8).concat(' marks the spot'),
    'ab'.repeat(500).concat(' and cd'.repeat(3)),
  ])
    expect(faultOf(password), password).toBeNull();
});

test.each([
  ['1234567', 'has 7 characters, and the minimum is 8'],
  ['😀😃😄😁', 'has 4 characters, and the minimum is 8'],
  ['e\u0301'.repeat(5), 'has 5 characters, and the minimum is 8'],
  ['Password1', 'is one of the most common passwords'],
  ['QWERTYUIOP', 'is one of the most common passwords'],
  ['annabell', 'is the name or email address of the account'],
  ['AnnaBell', 'is the name or email address of the account'],
  ['anna.bell', 'is the name or email address of the account'],
  ['Anna.Bell@Example.org', 'is the name or email address of the account'],
  ['aaaaaaaa', 'repeats a few characters'],
  ['        ', 'repeats a few characters'],
  ['abababababab', 'repeats a few characters'],
  ['berthberth', 'repeats a few characters'],
  ['1q2w1q2w1q2w', 'repeats a few characters'],
  ['12345678', 'is a sequence'],
  ['987654321', 'is a sequence'],
  ['abcdefgh1234', 'is a sequence'],
  ['1234abcd', 'is a sequence'],
  ['AAAA1234zzzz', 'is a sequence'],
  ['\ud800aaaaaaa', 'has half of a character'],
  ['correct horse \udc00', 'has half of a character'],
])('refuses %j, and says why', (password, why) => {
  expect(faultOf(password)).toContain(why);
});

test('says what would work', () => {
  for (const weak of ['password1', 'aaaaaaaa', '12345678', 'annabell'])
    expect(faultOf(weak)).toMatch(/: choose one that others do not guess, such as four words/);
});

test('reads the longest password of the contract at once', () => {
  expect(faultOf('a'.repeat(1_024))).toContain('repeats');
  expect(faultOf(`${'ab'.repeat(511)}c`)).toContain('repeats');
});

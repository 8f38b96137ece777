import { describe, expect, test } from 'vitest';
import { namesOf, refusalOfFilePath } from '../../../src/domain/storage/paths.ts';

describe('a file path', () => {
  test.each([
    '',
    'a',
    'a/b/c',
    '...',
    '.hidden',
    'a b',
    'back\\slash',
    '..\\..\\x',
    'café/данные/🚀',
    '~',
    '-rf',
    'a\nb',
  ])('may be %j', (path) => {
    expect(refusalOfFilePath(path)).toBeNull();
  });

  test.each([
    ['..', 'has the name ".."'],
    ['a/../b', 'has the name ".."'],
    ['a/..', 'has the name ".."'],
    ['./a', 'has the name "."'],
    ['/etc/passwd', 'has an empty name'],
    ['a//b', 'has an empty name'],
    ['a/', 'has an empty name'],
    ['/', 'has an empty name'],
    ['a\0b', 'has a NUL character'],
    ['a\ud800', 'has half of a surrogate pair'],
    ['\udc00/a', 'has half of a surrogate pair'],
    ['é'.repeat(128), 'has a name that is too long: at most 255 bytes'],
    ['a/'.repeat(2048) + 'a', 'is too long: at most 4096 bytes'],
  ])('may not be %j, and the refusal names the reason', (path, why) => {
    expect(refusalOfFilePath(path)).toMatch(why);
  });

  test('has at most 255 bytes per name and 4096 in total, as on Linux', () => {
    expect(refusalOfFilePath('n'.repeat(255))).toBeNull();
    expect(refusalOfFilePath('n'.repeat(256))).toMatch('too long');
    const longest = 'a/'.repeat(2047) + 'ab';
    expect(longest.length).toBe(4096);
    expect(refusalOfFilePath(longest)).toBeNull();
    expect(refusalOfFilePath(`${longest}c`)).toMatch('too long');
  });

  test('is split into its names', () => {
    expect(namesOf('')).toEqual([]);
    expect(namesOf('a/b')).toEqual(['a', 'b']);
  });
});

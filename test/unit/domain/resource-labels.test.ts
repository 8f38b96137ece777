import { expect, test } from 'vitest';
import { labelsText, refusalOfLabels, searchForm, withLabels } from '../../../src/domain/kernel/resource-labels.ts';

test.each([
  [{}],
  [{ team: 'research', 'example.org/app': 'llm-7b', a: '', A_1: 'x.y', ['k'.repeat(63)]: 'v'.repeat(63) }],
  [{ [`${'d.'.repeat(126)}d/k`]: 'v', constructor: 'x' }],
  [Object.fromEntries(Array.from({ length: 32 }, (_, at) => [`k${at}`, '']))],
])('takes %j', (labels) => {
  expect(refusalOfLabels(labels)).toBe(null);
});

test.each([
  [{ '': 'x' }, /the key "": a key must be at most 63 letters/],
  [{ 'a b': 'x' }, /the key "a b"/],
  [{ '-a': 'x' }, /begin and end with a letter or digit/],
  [{ 'a/b/c': 'x' }, /the key "a\/b\/c"/],
  [{ '/a': 'x' }, /for example "team" or "example.org\/team"/],
  [{ 'Example.org/a': 'x' }, /the key/],
  [{ [`${'d'.repeat(254)}/a`]: 'x' }, /the key "d{60}"…/],
  [{ ['k'.repeat(64)]: 'x' }, /the key/],
  [{ 'a\u0000': 'x' }, /the key "a\\u0000"/],
  [{ 'a\n': 'x' }, /the key/],
  [{ ä: 'x' }, /the key/],
  [{ a: 'b c' }, /the value "b c" for "a": a value must be empty, or/],
  [{ a: 'v'.repeat(64) }, /the value/],
  [{ a: '\u0000' }, /the value/],
  [{ a: 'x\n' }, /the value/],
  [Object.fromEntries(Array.from({ length: 33 }, (_, at) => [`k${at}`, ''])), /33 labels: it must have at most 32/],
  [Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`k${at}`, ''])), /10000 labels/],
])('refuses %j', (labels, message) => {
  expect(refusalOfLabels(labels)).toMatch(message);
});

test('adds labels to a text in the order of their keys, and nothing without labels', () => {
  expect(labelsText({})).toBe(null);
  expect(withLabels('{"a":1}', labelsText({}))).toBe('{"a":1}');
  expect(withLabels('{"a":1}', labelsText({ b: '2', a: '' }))).toBe('{"a":1,"labels":{"a":"","b":"2"}}');
});

test('finds names in any letter case and either form of an accent', () => {
  expect(searchForm('Ün%_')).toBe('ün%_');
  expect(searchForm('U\u0308')).toBe(searchForm('ü'));
});

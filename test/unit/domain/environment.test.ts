import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import {
  environmentLimits,
  hideSecrets,
  mergeEnvironment,
  refusalOfLayer,
  refusalOfVariables,
  shellExports,
  type Environment,
} from '../../../src/domain/compute/environment.ts';

it('lets a later layer replace variables of an earlier one', () => {
  const layers = [['A=1'], ['A=2', 'B=2'], ['B=3']].map(
    (layer) => new Map(layer.map((line): [string, string] => [line.slice(0, 1), line.slice(2)])),
  );
  expect([...mergeEnvironment(...layers)]).toEqual([
    ['A', '2'],
    ['B', '3'],
  ]);
});

it.each(["'", "''a'b'", '"\\"', 'a\nb\n', '$HOME `id` $(id)', '\\', '-n', ' \t ', 'ü€😀', ''])(
  'quotes %j for a shell',
  (value) => {
    const script = `${shellExports(new Map([['VALUE', value]]))}printf '%s.' "$VALUE"`;
    expect(execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' })).toBe(`${value}.`);
  },
);

const LONG = 'x'.repeat(environmentLimits.valueBytes);

it.each<[string, Record<string, string>]>([
  ['none', {}],
  ['usual names', { HF_TOKEN: 'x', lower_case: '', _private: '1', LD_LIBRARY_PATH: '/opt', A1: 'a\nb' }],
  ['the longest name and value', { ['N'.repeat(128)]: LONG }],
  ['256 variables', Object.fromEntries(Array.from({ length: 256 }, (_, at) => [`N${at}`, 'x']))],
])('takes %s', (_, variables) => {
  expect(refusalOfVariables(variables)).toBeNull();
});

it.each<[string, Record<string, string>, RegExp]>([
  ['an empty name', { '': 'x' }, /"": a name is 1 to 128 letters, digits and underscores/],
  ['a digit first', { '1A': 'x' }, /does not begin with a digit/],
  ['a dash', { 'A-B': 'x' }, /"A-B": a name is/],
  ['=', { 'A=B': 'x' }, /a name is/],
  ['a line', { 'A\nB': 'x' }, /"A\\nB": a name is/],
  ['letters outside of ASCII', { Ü: 'x' }, /of ASCII/],
  ['a long name', { ['N'.repeat(129)]: 'x' }, /"N{40}…": a name is 1 to 128/],
  ['PATH', { PATH: '/opt/bin' }, /PATH": the name is reserved .* extend it in ~\/\.bashrc/],
  ['HOME', { HOME: '/' }, /reserved/],
  ['a name of Berth', { BERTH_INSTANCE_ID: 'x' }, /names that begin with BERTH_ are for Berth\); choose another/],
  ['a name of Berth in small letters', { berth_x: 'x' }, /are for Berth/],
  ['a name that bash keeps for itself', { UID: '0' }, /its shells set it themselves/],
  ['a name of a member of objects', JSON.parse('{"__proto__":"x"}'), /reserved/],
  ['NUL', { A: 'secret\0' }, /"A": a value is UTF-8 text without NUL; encode bytes as base64/],
  ['a lone surrogate', { A: '\ud800' }, /UTF-8/],
  ['a value a byte too long', { A: `${LONG}x` }, /has 32769 bytes, and the limit is 32768; put it into a file/],
  ['a value of two-byte letters', { A: 'ü'.repeat(16_385) }, /has 32770 bytes/],
  ['10,000 variables', Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`N${at}`, 'x'])), /10000 .* 256/],
])('refuses %s', (_, variables, why) => {
  expect(refusalOfVariables(variables)).toMatch(why);
  expect(refusalOfVariables(variables)).not.toMatch(/secret|xxx/);
});

it('refuses a layer that is too large as a whole', () => {
  const layer = (count: number): Environment =>
    new Map(Array.from({ length: count }, (_, at) => [`N${at}`, 'x'.repeat(environmentLimits.valueBytes - 10)]));
  expect(refusalOfLayer(layer(4))).toBeNull();
  expect(refusalOfLayer(layer(5))).toMatch(/163\d\d\d bytes together, and the limit is 131072; delete some/);
  const many: Environment = new Map(Array.from({ length: 257 }, (_, at) => [`N${at}`, '']));
  expect(refusalOfLayer(many)).toMatch(/257 variables, and the limit is 256/);
});

const CUT = `${'0123456789'.repeat(60)}end`;
it.each([
  ['got hunter2!', 'got [TOKEN]!'],
  ['both lines', 'both [KEY]'],
  [`the key is ${CUT}`.slice(0, 500), 'the key is [LONG]'],
  [CUT.slice(3, 503), '[LONG]'],
  [`${CUT} is the key`.slice(200), '[LONG] is the key'],
  ['for hunt', 'for [TOKEN]'],
  ['not a word of it: cat', 'not a word of it: cat'],
  ['', ''],
])('hides secrets in %j', (text, shown) => {
  const secrets = new Map([
    ['TOKEN', 'hunter2'],
    ['LONG', CUT],
    ['KEY', 'two\n lines '],
    ['SHORT', 'cat'],
  ]);
  expect(hideSecrets(text, secrets)).toBe(shown);
});

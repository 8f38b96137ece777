import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { mergeEnvironment, shellExports } from '../../../src/domain/environment.ts';

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

import { expect, test } from 'vitest';
import {
  effectiveAccess,
  defaultAccess,
  allowsAccount,
  changeAccess,
  type PortAccess,
} from '../../../src/domain/port-access.ts';

test('where nothing is set, ports in nodePorts are public, and all others the owner’s; 22 is never public', () => {
  expect(defaultAccess(8000, [22, 8000])).toBe('public');
  expect(defaultAccess(8001, [22, 8000])).toBe('owner');
  expect(defaultAccess(22, [22, 8000])).toBe('owner');
  expect(effectiveAccess([22, 8000], new Map())).toEqual(new Map([[8000, 'public']]));
});

test('a setting goes before the default, either way', () => {
  const settings = new Map<number, PortAccess>([
    [8000, 'owner'],
    [8001, 'signedIn'],
    [8002, 'public'],
  ]);
  const held = effectiveAccess([22, 8000, 8003], settings);
  expect(held).toEqual(
    new Map([
      [8001, 'signedIn'],
      [8002, 'public'],
      [8003, 'public'],
    ]),
  );
});

test('what is set to its default is set no longer', () => {
  const asked = [8000];
  const one = changeAccess(new Map(), { port: 8000, access: 'signedIn' }, asked);
  expect(one).toEqual(new Map([[8000, 'signedIn']]));
  for (const access of ['public', 'default'] as const)
    expect(changeAccess(one, { port: 8000, access }, asked)).toEqual(new Map());
  expect(changeAccess(one, { port: 8001, access: 'owner' }, asked)).toEqual(one);
  expect(changeAccess(one, { port: 8000, access: 'owner' }, asked)).toEqual(new Map([[8000, 'owner']]));
});

test.each([
  ['public', null, true],
  ['public', 'other', true],
  ['public', 'ann', true],
  ['signedIn', null, false],
  ['signedIn', 'other', true],
  ['signedIn', 'ann', true],
  ['owner', null, false],
  ['owner', 'other', false],
  ['owner', 'ann', true],
] as const)('to a port that is set to %s, %s comes: %s', (access, accountId, comes) => {
  expect(allowsAccount(access, accountId, 'ann')).toBe(comes);
});

import { expect, test } from 'vitest';
import {
  effectiveAccess,
  defaultAccess,
  allowsAccount,
  changeAccess,
  type PortAccess,
} from '../../../src/domain/access/port-access.ts';

test('ports in nodePorts are public by default, all others the owner’s; port 22 is never public', () => {
  expect(defaultAccess(8000, [22, 8000])).toBe('public');
  expect(defaultAccess(8001, [22, 8000])).toBe('owner');
  expect(defaultAccess(22, [22, 8000])).toBe('owner');
  expect(effectiveAccess([22, 8000], new Map())).toEqual(new Map([[8000, 'public']]));
});

test('a setting overrides the default, to more or less access', () => {
  const settings = new Map<number, PortAccess>([
    [8000, 'owner'],
    [8001, 'signedIn'],
    [8002, 'public'],
  ]);
  const access = effectiveAccess([22, 8000, 8003], settings);
  expect(access).toEqual(
    new Map([
      [8001, 'signedIn'],
      [8002, 'public'],
      [8003, 'public'],
    ]),
  );
});

test('setting a port to its default removes the setting', () => {
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
] as const)('access %s admits the account %s: %s', (access, accountId, comes) => {
  expect(allowsAccount(access, accountId, 'ann')).toBe(comes);
});

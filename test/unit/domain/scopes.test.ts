import { expect, test } from 'vitest';
import { hasRole } from '../../../src/domain/access/roles.ts';
import { mayUse, scopesFor } from '../../../src/domain/access/scopes.ts';

test('a role has the rights of those before it', () => {
  expect(hasRole(['admin'], 'operator')).toBe(true);
  expect(hasRole(['user', 'operator'], 'operator')).toBe(true);
  expect(hasRole(['operator'], 'admin')).toBe(false);
  expect(hasRole(['user'], 'operator')).toBe(false);
  expect(hasRole(['root', '', 'constructor'], 'user')).toBe(false);
  expect(hasRole([], 'user')).toBe(false);
});

test('a key reads with "read" or the scope of the subject, and changes with the latter alone', () => {
  const list = { subject: 'volumes', reads: true } as const;
  const create = { subject: 'volumes', reads: false } as const;
  expect(mayUse(null, create)).toBe(true);
  expect(mayUse(['read'], list)).toBe(true);
  expect(mayUse(['read', 'instances', 'admin'], create)).toBe(false);
  expect(mayUse(['volumes'], create)).toBe(true);
  expect(mayUse(['volumes'], list)).toBe(true);
  expect(mayUse([], list)).toBe(false);
});

test('reads of administrators need the scope "admin"', () => {
  expect(scopesFor({ subject: 'admin', reads: true })).toEqual(['admin']);
  expect(mayUse(['read'], { subject: 'admin', reads: true })).toBe(false);
});

import { expect, test } from 'vitest';
import { viewToReturn } from '../../../console/src/app/view-to-return.ts';

test('the way back from the login is a view that the login page accepts', () => {
  expect(viewToReturn({ pathname: '/instances', search: '?q=a%20b' })).toBe('/instances?q=a%20b');
  expect(viewToReturn({ pathname: '/instances', search: '?q=a\\b' })).toBe('/instances?q=a%5Cb');
  expect(viewToReturn({ pathname: '/instances', search: `?q=${'a'.repeat(2_000)}` })).toBe('/instances');
  expect(viewToReturn({ pathname: '/nowhere', search: '?a=b' })).toBe('/');
});

import { expect, test } from 'vitest';
import { afterPatterns } from '../../../src/contract/compute/log.ts';
import { formatLogPosition } from '../../../src/domain/compute/log-position.ts';

test('the contract accepts the cursors that the domain writes', () => {
  expect(afterPatterns.console.test(formatLogPosition({ atMs: 1_780_000_000_000, nth: 12 }))).toBe(true);
});

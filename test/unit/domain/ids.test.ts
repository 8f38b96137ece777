/** Ids of instances: UUIDs of version 7. */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { instanceIdAt, isInstanceId } from '../../../src/domain/kernel/ids.ts';

const MOST_MS = 2 ** 48 - 1;
const times = fc.integer({ min: 0, max: MOST_MS });

test('makes ids of instances that sort by the time of their launch', () => {
  fc.assert(
    fc.property(times, times, (a, b) => {
      const [earlier, later] = [Math.min(a, b), Math.max(a, b)];
      const [first, second] = [instanceIdAt(randomUUID(), earlier), instanceIdAt(randomUUID(), later)];
      expect(earlier === later || first < second).toBe(true);
    }),
  );
});

test('makes UUIDs of version 7 with the time and 74 random bits', () => {
  const atMs = 0x0123_4567_89ab;
  const id = instanceIdAt('f81d4fae-7dec-4cd0-a765-00a0c91e6bf6', atMs);
  expect(id).toBe('notebook-01234567-89ab-7cd0-a765-00a0c91e6bf6');
  expect(isInstanceId(instanceIdAt(randomUUID(), 0)) && isInstanceId(instanceIdAt(randomUUID(), MOST_MS))).toBe(true);
});

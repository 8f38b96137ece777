/** Stored times that a clock step back left in the future. */
import { expect, test } from 'vitest';
import { clampFutureTimes } from '../../../src/domain/compute/instance.ts';
import { anInstance } from './instance-fixture.ts';

test('moves a request time in the future to now, so its deadlines are not delayed', () => {
  const desired = anInstance({ requestedAtMs: 5_000 });
  expect(clampFutureTimes(desired, 5_000)).toBeNull();
  expect(clampFutureTimes(desired, 1_000)).toEqual({ ...desired, requestedAtMs: 1_000 });
});

test('moves a future start of the deadlines to now', () => {
  const desired = anInstance({ requestedAtMs: 500 });
  const answered = { ...desired, observed: { ...desired.observed, countedFromMs: 7_000 } };
  expect(clampFutureTimes(answered, 7_000)).toBeNull();
  expect(clampFutureTimes(answered, 1_000)).toEqual({
    ...answered,
    observed: { ...answered.observed, countedFromMs: 1_000 },
  });
});

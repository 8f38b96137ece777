/** Times written before the clock was set back. */
import { expect, test } from 'vitest';
import { clampFutureTimes } from '../../../src/domain/instance.ts';
import { anInstance } from './instance-fixture.ts';

test('what was wished in a time to come was wished now, and so its deadlines come in their time', () => {
  const desired = anInstance({ requestedAtMs: 5_000 });
  expect(clampFutureTimes(desired, 5_000)).toBeNull();
  expect(clampFutureTimes(desired, 1_000)).toEqual({ ...desired, requestedAtMs: 1_000 });
});

test('the engine that answered again in a time to come answered now', () => {
  const desired = anInstance({ requestedAtMs: 500 });
  const answered = { ...desired, observed: { ...desired.observed, countedFromMs: 7_000 } };
  expect(clampFutureTimes(answered, 7_000)).toBeNull();
  expect(clampFutureTimes(answered, 1_000)).toEqual({
    ...answered,
    observed: { ...answered.observed, countedFromMs: 1_000 },
  });
});

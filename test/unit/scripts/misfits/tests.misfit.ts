/** Every way a test can end, for the totals of `test/unit/scripts/totals-reporter.test.ts`. */
import { beforeAll, describe, expect, test } from 'vitest';

test('passes', () => {
  expect(1).toBe(1);
});

let tries = 0;
test('passes at the second try', { retry: 1 }, () => {
  tries += 1;
  if (tries === 1) throw new Error('not at the first');
});

test('fails', () => {
  expect(1).toBe(2);
});

test('says why it is left out', (context) => {
  context.skip('there is no GPU');
});

// skipped to see it named in the totals
test.todo('is to do');

describe('a throwing hook', () => {
  beforeAll(() => {
    throw new Error('the hook');
  });

  test('is left out', () => {
    expect(1).toBe(1);
  });
});

test('throws outside of the test', async () => {
  process.nextTick(() => {
    throw new Error('uncaught');
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(1).toBe(1);
});

import { expect, test } from 'vitest';
import { eachOf } from '../../../src/control/kernel/each-of.ts';
import { settle } from '../async/settle.ts';

test('begins four works of a task at once, and every one in the end', async () => {
  const running: (() => void)[] = [];
  const begun: number[] = [];
  const all = eachOf(
    Array.from({ length: 500 }, (_, at) => at),
    (row) => new Promise<void>((resolve) => running.push((begun.push(row), resolve))),
  );
  for (;;) {
    await settle();
    expect(running.length).toBeLessThanOrEqual(4);
    if (running.length === 0) break;
    running.shift()?.();
  }
  await all;
  expect(begun).toHaveLength(500);
});

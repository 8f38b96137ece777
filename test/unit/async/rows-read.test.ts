import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { countingRows, noteQuery, noteSmallRows } from '../../../src/async/rows-read.ts';
import { realTime } from '../../../src/control/kernel/time.ts';

test('counts the rows of each request apart, between turns and after it returned', async () => {
  const counts = { ann: 0, bob: 0 };
  const request = async (): Promise<void> => {
    for (let part = 0; part < 3; part += 1) {
      await nextTurn();
      noteQuery(5);
      noteSmallRows(20);
    }
  };
  const begin = (name: 'ann' | 'bob') => countingRows((rows) => void (counts[name] += rows), request);
  await Promise.all([begin('ann'), begin('bob')]);
  noteQuery(100);
  expect(counts).toEqual({ ann: 51, bob: 51 });
});

test('counts nothing that a timer reads, which serves many requests', async () => {
  let count = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  const onTimer = (): void => {
    noteQuery(1);
    resolve();
  };
  countingRows(
    (rows) => (count += rows),
    () => realTime.after(0, onTimer),
  );
  await promise;
  expect(count).toBe(0);
});

import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { drained, onAbort, raceAbort, untilAborted, withDeadline } from '../../../src/async/abort.ts';
import { settle } from './settle.ts';

const never = new Promise<never>(() => {});

test('a race rejects with the reason at abort, and leaves no listener behind', async () => {
  const abort = new AbortController();
  const race = raceAbort(never, abort.signal);
  abort.abort(new Error('enough'));
  await expect(race).rejects.toThrow('enough');
  await expect(raceAbort(never, abort.signal)).rejects.toThrow('enough');
  await expect(raceAbort(never, abort.signal, () => new Error('named'))).rejects.toThrow('named');

  const { signal } = new AbortController();
  let added = 0;
  signal.addEventListener = () => void (added += 1);
  signal.removeEventListener = () => void (added -= 1);
  expect(await raceAbort(Promise.resolve(1), signal)).toBe(1);
  await expect(raceAbort(Promise.reject(new Error('broken')), signal)).rejects.toThrow('broken');
  expect(added).toBe(0);
});

test('a listener is called once, at once after an abort, and not after it unsubscribed', () => {
  const abort = new AbortController();
  const calls: string[] = [];
  onAbort(abort.signal, () => calls.push('before'));
  onAbort(abort.signal, () => calls.push('unsubscribed'))();
  abort.abort();
  onAbort(abort.signal, () => calls.push('after'));
  expect(calls).toEqual(['before', 'after']);
});

test('a deadline aborts by its clock, or with the signal', async () => {
  const late = new AbortController();
  const byClock = withDeadline(new AbortController().signal, 5, (ms) => {
    expect(ms).toBe(5);
    return late.signal;
  });
  late.abort();
  expect(byClock.aborted).toBe(true);
  const abort = new AbortController();
  const bySignal = withDeadline(abort.signal, 60_000);
  const aborted = untilAborted(bySignal);
  abort.abort();
  await aborted;
});

test('a stream is drained once its data went on, and when it is closed', async () => {
  for (const end of ['read', 'destroy'] as const) {
    const stream = new PassThrough({ highWaterMark: 1 });
    await drained(stream);
    stream.write('xx');
    const waiting = drained(stream);
    expect(await Promise.race([waiting.then(() => 'drained'), settle().then(() => 'full')])).toBe('full');
    if (end === 'read') stream.resume();
    else stream.destroy();
    await waiting;
  }
});

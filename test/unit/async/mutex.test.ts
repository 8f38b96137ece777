import { expect, test } from 'vitest';
import { makeKeyedMutex } from '../../../src/async/mutex.ts';
import { settle } from './settle.ts';

test('runs operations on one key one at a time, in the order of their calls', async () => {
  const mutex = makeKeyedMutex<string>();
  const log: string[] = [];
  const operation = (name: string) => async () => {
    log.push(`${name} begins`);
    await settle();
    log.push(`${name} ends`);
  };
  await Promise.all(['a', 'b', 'c'].map((name) => mutex.run('key', operation(name))));
  expect(log).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
});

test('does not let a newcomer overtake a waiter that was just granted the mutex', async () => {
  const mutex = makeKeyedMutex<string>();
  const log: string[] = [];
  const unlock = await mutex.acquire('key');
  const waiting = mutex.run('key', async () => void log.push('waiter'));
  unlock();
  await Promise.all([mutex.run('key', async () => void log.push('newcomer')), waiting]);
  expect(log).toEqual(['waiter', 'newcomer']);
});

test('runs operations on different keys at the same time', async () => {
  const mutex = makeKeyedMutex<number>();
  await mutex.acquire(1);
  await expect(mutex.run(2, async () => 'ran')).resolves.toBe('ran');
});

test('an abort ends the wait without a call of the operation, and later waiters still run', async () => {
  const mutex = makeKeyedMutex<string>();
  const unlock = await mutex.acquire('key');
  const abort = new AbortController();
  let calls = 0;
  const operation = async () => (calls += 1);
  const aborted = mutex.run('key', operation, abort.signal);
  const later = mutex.run('key', operation);
  abort.abort(new Error('enough'));
  await expect(aborted).rejects.toThrow('enough');
  unlock();
  await later;
  expect(calls).toBe(1);
  await expect(mutex.run('key', operation, abort.signal)).rejects.toThrow('enough');
  expect(mutex.size).toBe(0);
});

test('reports an abort by the error it was given', async () => {
  const mutex = makeKeyedMutex<string>({ abortError: ({ reason }) => new Error(`aborted: ${String(reason)}`) });
  await mutex.acquire('key');
  const abort = new AbortController();
  const waiting = mutex.acquire('key', abort.signal);
  abort.abort('late');
  await expect(waiting).rejects.toThrow('aborted: late');
});

test('releases after a failure, ignores a second release, and leaves no key behind', async () => {
  const mutex = makeKeyedMutex<string>();
  await expect(mutex.run('key', async () => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  const unlock = await mutex.acquire('key');
  const second = mutex.acquire('key');
  unlock();
  const unlockSecond = await second;
  const third = mutex.acquire('key');
  unlock();
  expect(await Promise.race([third.then(() => 'granted'), settle().then(() => 'waits')])).toBe('waits');
  unlockSecond();
  (await third)();
  expect(mutex.size).toBe(0);
});

import { expect, test } from 'vitest';
import { makeSemaphore } from '../../../src/async/semaphore.ts';
import { settle } from './settle.ts';

/** Operations that run until released by the test. */
function operations() {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    begun,
    operation: (name: string) => () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    },
    async end(name: string) {
      ends.get(name)?.();
      await settle();
    },
  };
}

test('never runs more operations than it has permits, and serves one owner in order', async () => {
  const semaphore = makeSemaphore(2);
  const { begun, operation, end } = operations();
  for (const name of ['a', 'b', 'c', 'd']) void semaphore.run(operation(name));
  await settle();
  expect(begun).toEqual(['a', 'b']);
  await end('b');
  expect(begun).toEqual(['a', 'b', 'c']);
  await end('a');
  expect(begun).toEqual(['a', 'b', 'c', 'd']);
});

test('serves waiting owners round-robin', async () => {
  const semaphore = makeSemaphore(1);
  const { begun, operation, end } = operations();
  for (const name of ['a1', 'a2', 'a3']) void semaphore.run(operation(name), { owner: 'a' });
  for (const name of ['b1', 'c1']) void semaphore.run(operation(name), { owner: name.slice(0, 1) });
  await settle();
  for (const name of ['a1', 'a2', 'b1', 'c1']) await end(name);
  expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3']);
});

test('limits each owner to a share, so others get the rest', async () => {
  const semaphore = makeSemaphore(3, { perOwner: 1 });
  const { begun, operation, end } = operations();
  for (const name of ['a1', 'a2', 'b1']) void semaphore.run(operation(name), { owner: name.slice(0, 1) });
  await settle();
  expect(begun).toEqual(['a1', 'b1']);
  await end('a1');
  expect(begun).toEqual(['a1', 'b1', 'a2']);
});

test('an abort ends the wait without a call of the operation, and costs no permit', async () => {
  const semaphore = makeSemaphore(1, { abortError: ({ reason }) => new Error(`aborted: ${String(reason)}`) });
  const { begun, operation, end } = operations();
  void semaphore.run(operation('a'));
  const abort = new AbortController();
  const aborted = semaphore.run(operation('b'), { signal: abort.signal });
  void semaphore.run(operation('c'));
  abort.abort('late');
  await expect(aborted).rejects.toThrow('aborted: late');
  await expect(semaphore.run(operation('d'), { signal: abort.signal })).rejects.toThrow('aborted: late');
  expect(begun).toEqual(['a']);
  await end('a');
  expect(begun).toEqual(['a', 'c']);
});

test('a failed operation releases its permit', async () => {
  const semaphore = makeSemaphore(1);
  await expect(semaphore.run(() => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  await expect(semaphore.run(async () => 'ran')).resolves.toBe('ran');
});

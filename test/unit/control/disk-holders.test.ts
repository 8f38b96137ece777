/** Holds on a disk: operations in a disk are counted, and aborted when the disk goes away. */
import { expect, test } from 'vitest';
import { makeDiskHolders } from '../../../src/control/storage/disk-holders.ts';

const one = { kind: 'volume', id: 'one' } as const;
const other = { kind: 'volume', id: 'other' } as const;
const sameId = { kind: 'snapshot', id: 'one' } as const;

test('a disk is in use until its last hold is released, and no other disk is', () => {
  const uses = makeDiskHolders();
  const [first, second] = [uses.acquire(one), uses.acquire(one)];
  expect([uses.inUse(one), uses.inUse(other), uses.inUse(sameId)]).toEqual([true, false, false]);
  first.release();
  first.release();
  expect(uses.inUse(one)).toBe(true);
  second.release();
  expect(uses.inUse(one)).toBe(false);
});

test('abort ends all holds of a disk with its reason, and waits until the last is released', async () => {
  const uses = makeDiskHolders();
  const [first, second, elsewhere] = [uses.acquire(one), uses.acquire(one), uses.acquire(other)];
  const reason = new Error('it is being deleted');
  let isCut = false;
  const cut = uses.abort(one, reason).then(() => (isCut = true));
  expect([first.signal.reason, second.signal.reason]).toEqual([reason, reason]);
  expect(elsewhere.signal.aborted).toBe(false);
  first.release();
  await Promise.resolve();
  await Promise.resolve();
  expect(isCut).toBe(false);
  second.release();
  await cut;
  // A later acquire has read the disk's state since.
  expect(uses.acquire(one).signal.aborted).toBe(false);
  await uses.abort(sameId, reason);
});

test('stop ends all holds, also later ones', async () => {
  const uses = makeDiskHolders();
  const holds = [uses.acquire(one), uses.acquire(other)];
  const reason = new Error('the server is stopping');
  for (const { signal, release } of holds) signal.addEventListener('abort', release);
  await uses.stop(reason);
  expect(uses.acquire(one).signal.reason).toBe(reason);
});

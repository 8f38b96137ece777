/**
 * Deeds on one disk come one after the other, also when whoever asked for the one before has left it: a late create must not bring
 * back what was destroyed since. Who waits is never held by a storage that does not answer: the signal ends the waiting, and a deed
 * whose turn had not come by then is not begun.
 */
import type { DiskId } from '../../domain/disk.ts';
import type { Storage } from '../../storage/contract.ts';
import { raced } from '../base/race-abort.ts';

const underWay = new WeakMap<Storage, Map<string, Promise<unknown>>>();

export function inTurn<T>(storage: Storage, disk: DiskId, deed: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const ofStorage = underWay.get(storage) ?? new Map<string, Promise<unknown>>();
  underWay.set(storage, ofStorage);
  const key = `${disk.kind} ${disk.id}`;
  const before = ofStorage.get(key) ?? Promise.resolve();
  const begin = (): Promise<T> => (signal.aborted ? Promise.reject(signal.reason) : deed());
  const mine = before.then(begin, begin);
  ofStorage.set(key, mine);
  const forget = (): void => {
    if (ofStorage.get(key) === mine) ofStorage.delete(key);
  };
  mine.then(forget, forget);
  return raced(mine, signal);
}

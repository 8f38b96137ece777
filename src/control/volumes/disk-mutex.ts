/**
 * One operation on a disk at a time, in the order of the calls: a late create must not restore what
 * was destroyed since. An abort releases the caller, also from a storage that never answers. The
 * mutex stays locked until a running operation settles; a waiting operation is dropped.
 */
import { raceAbort } from '../../async/abort.ts';
import { makeKeyedMutex, type KeyedMutex } from '../../async/mutex.ts';
import type { DiskId } from '../../domain/disk.ts';
import type { Storage } from '../../storage/contract.ts';

const mutexes = new WeakMap<Storage, KeyedMutex<string>>();

export function withDiskMutex<T>(
  storage: Storage,
  disk: DiskId,
  operation: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const mutex = mutexes.get(storage) ?? makeKeyedMutex<string>();
  mutexes.set(storage, mutex);
  return raceAbort(mutex.run(`${disk.kind} ${disk.id}`, operation, signal), signal);
}

/**
 * # Space reserve
 *
 * A file in the data folder that Berth shortens, piece by piece, while the file system is full:
 * what cannot wait is written to the space that this frees. Pieces, because another program that
 * goes on writing takes what is left of each. In the state *full* the edge refuses changes that
 * can wait. The state ends, and the file grows again, once enough space is free that it does not
 * return at once.
 */
import { randomFillSync } from 'node:crypto';
import { closeSync, openSync, statfsSync, statSync, truncateSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { StoreLog } from '../store.ts';
import { isStorageFull } from './errors.ts';

const KIB = 2 ** 10;
const MIB = 2 ** 20;
export const RESERVE_BYTES = 16 * MIB;
/** Less free space is full: the write-ahead log grows to 16 MiB between checkpoints. */
export const FULL_BELOW_BYTES = 16 * MIB;
/** A write changes up to 30 pages of 8 KiB, so it may need some pieces. */
const PIECE_BYTES = 64 * KIB;
/** Kept for a start, which creates the index of the database, and writes before it serves. */
const FREE_AT_START_BYTES = MIB;
/** The state may begin and end with each file that another program writes. */
const REPORTED_EVERY_MS = 5 * 60_000;

export interface SpaceReserve {
  isFull(): boolean;
  /** Call after a write failed for want of space. True if a piece was freed: try again. */
  release(): boolean;
  /** Compares free space with the limits. */
  check(): Promise<void>;
}

export const noReserve: SpaceReserve = { isFull: () => false, release: () => false, check: async () => {} };

/** Call with the folder's lock (`lockFolder`) acquired. */
export async function openSpaceReserve({
  folder,
  log,
  now = () => performance.now(),
}: {
  folder: string;
  log: StoreLog;
  /** Milliseconds that never go back. */
  now?: () => number;
}): Promise<SpaceReserve> {
  const file = join(folder, 'space-reserve');
  closeSync(openSync(file, 'a', 0o600));
  let isFull = true;
  let isReported = false;
  let reportedMs = -Infinity;
  const size = (): number => statSync(file).size;
  const freeBytes = (): number => {
    const { bsize, bavail } = statfsSync(folder);
    return bsize * bavail;
  };
  const shorten = (bytes: number, keptBytes = FREE_AT_START_BYTES): boolean => {
    const before = size();
    if (before <= keptBytes) return false;
    truncateSync(file, Math.max(keptBytes, before - bytes));
    return true;
  };
  const begin = (): void => {
    isFull = true;
    if (isReported || now() - reportedMs < REPORTED_EVERY_MS) return;
    isReported = true;
    reportedMs = now();
    const text =
      'the file system of the data folder is full: until you free or add space, only logins, stops and deletions are stored';
    log.error({ folder, freeBytes: freeBytes(), reserveBytes: size() }, text);
  };
  /** False if space is still short. */
  const refill = async (): Promise<boolean> => {
    if (freeBytes() < RESERVE_BYTES - size() + 2 * FULL_BELOW_BYTES) return false;
    await fill(file, RESERVE_BYTES - size());
    isFull = size() < RESERVE_BYTES;
    return !isFull;
  };
  const keepFree = (bytes: number, keptBytes?: number): void => {
    const missing = bytes - freeBytes();
    if (missing > 0) shorten(missing, keptBytes);
  };

  if (!(await refill())) {
    begin();
    keepFree(FREE_AT_START_BYTES, 0);
  }
  return {
    isFull: () => isFull,
    release() {
      begin();
      return shorten(PIECE_BYTES);
    },
    async check() {
      if (!isFull && freeBytes() >= FULL_BELOW_BYTES) return;
      if (isFull && (await refill())) {
        if (isReported) log.warn({ folder }, 'the file system of the data folder has space again');
        isReported = false;
        return;
      }
      begin();
      // For files beside the database.
      keepFree(PIECE_BYTES);
    },
  };
}

/** Random bytes, which a file system can neither compress nor leave out. */
async function fill(file: string, bytes: number): Promise<void> {
  const block = randomFillSync(Buffer.alloc(MIB));
  await using handle = await open(file, 'a');
  try {
    for (let left = bytes; left > 0; left -= MIB) await handle.write(block, 0, Math.min(left, MIB));
  } catch (error) {
    if (!isStorageFull(error)) throw error;
  }
}

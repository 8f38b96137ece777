/** What takes most of a disk, out of what a walk through it has found. Pure. */
import type { DiskEntry } from './disk.ts';

const NAMED = 5;
const CANDIDATES = 200;
/** A folder of which one entry is so much says no more than that entry does. */
const ALL_OF_IT_SHARE = 0.9;
const LONGEST_NAME = 200;

/** Largest first. */
export const takeLargest = (parts: readonly DiskEntry[], count: number): DiskEntry[] =>
  parts.toSorted((one, other) => other.bytes - one.bytes || (one.path < other.path ? -1 : 1)).slice(0, count);

/** The few that tell where its room went, of folders and files on several levels; their paths are safe to print. */
export function largestEntries(parts: readonly DiskEntry[]): DiskEntry[] {
  const isMostOf = (inner: DiskEntry, outer: DiskEntry): boolean =>
    inner.path.startsWith(`${outer.path}/`) && inner.bytes >= outer.bytes * ALL_OF_IT_SHARE;
  // However many an instance names: each is held against each.
  const candidates = takeLargest(parts, CANDIDATES);
  const telling = candidates.filter((outer) => outer.bytes > 0 && !candidates.some((inner) => isMostOf(inner, outer)));
  return takeLargest(telling, NAMED).map(({ path, bytes }) => ({ path: printable(path), bytes }));
}

/** Names are whatever an instance wrote: nothing of them may act on a terminal, or look like another line. */
function printable(path: string): string {
  const letters = [...path.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')];
  return letters.length > LONGEST_NAME ? `${letters.slice(0, LONGEST_NAME).join('')}…` : letters.join('');
}

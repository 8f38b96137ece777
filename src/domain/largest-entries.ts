import type { DiskEntry } from './disk.ts';

const MAX_ENTRIES = 5;
const MAX_CANDIDATES = 200;
/** A folder whose share lies almost whole in one entry adds no information. */
const DOMINANT_SHARE = 0.9;
const MAX_NAME_LENGTH = 200;

export const takeLargest = (entries: readonly DiskEntry[], count: number): DiskEntry[] =>
  entries.toSorted((one, other) => other.bytes - one.bytes || (one.path < other.path ? -1 : 1)).slice(0, count);

/** Returns at most five entries, folders and files of several levels. Paths are safe to print. */
export function largestEntries(entries: readonly DiskEntry[]): DiskEntry[] {
  const isMostOf = (inner: DiskEntry, outer: DiskEntry): boolean =>
    inner.path.startsWith(`${outer.path}/`) && inner.bytes >= outer.bytes * DOMINANT_SHARE;
  // Bounds the quadratic comparison below.
  const candidates = takeLargest(entries, MAX_CANDIDATES);
  const informative = candidates.filter(
    (outer) => outer.bytes > 0 && !candidates.some((inner) => isMostOf(inner, outer)),
  );
  return takeLargest(informative, MAX_ENTRIES).map(({ path, bytes }) => ({ path: printable(path), bytes }));
}

/** Instances choose the names: no control character or line break may reach a terminal. */
function printable(path: string): string {
  const letters = [...path.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')];
  return letters.length > MAX_NAME_LENGTH ? `${letters.slice(0, MAX_NAME_LENGTH).join('')}…` : letters.join('');
}

import type { DiskEntry } from './disk.ts';

const NAMED = 5;
const CANDIDATES = 200;
/** A folder whose share lies almost whole in one entry adds no information. */
const ALL_OF_IT_SHARE = 0.9;
const LONGEST_NAME = 200;

export const takeLargest = (parts: readonly DiskEntry[], count: number): DiskEntry[] =>
  parts.toSorted((one, other) => other.bytes - one.bytes || (one.path < other.path ? -1 : 1)).slice(0, count);

/** Returns at most five entries, folders and files of several levels. Paths are safe to print. */
export function largestEntries(parts: readonly DiskEntry[]): DiskEntry[] {
  const isMostOf = (inner: DiskEntry, outer: DiskEntry): boolean =>
    inner.path.startsWith(`${outer.path}/`) && inner.bytes >= outer.bytes * ALL_OF_IT_SHARE;
  // Bounds the quadratic comparison below.
  const candidates = takeLargest(parts, CANDIDATES);
  const telling = candidates.filter((outer) => outer.bytes > 0 && !candidates.some((inner) => isMostOf(inner, outer)));
  return takeLargest(telling, NAMED).map(({ path, bytes }) => ({ path: printable(path), bytes }));
}

/** Instances choose the names: no control character or line break may reach a terminal. */
function printable(path: string): string {
  const letters = [...path.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')];
  return letters.length > LONGEST_NAME ? `${letters.slice(0, LONGEST_NAME).join('')}…` : letters.join('');
}

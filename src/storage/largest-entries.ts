import type { DiskEntry } from '../domain/storage/disk.ts';
import { largestEntries, takeLargest } from '../domain/storage/disk-usage.ts';

/** Block size of `du -k` in bytes. */
export const DU_BLOCK = 1024;
/** Bounds memory: a level may have millions of entries. */
const CANDIDATE_LIMIT = 100;

/** `lines` of `du -k` on `folder`: size, tab, path. */
export async function largestOf(lines: AsyncIterable<string>, folder: string): Promise<DiskEntry[]> {
  let entries: DiskEntry[] = [];
  for await (const line of lines) {
    const tab = line.indexOf('\t');
    const path = line.slice(tab + 1 + folder.length + 1);
    if (tab < 1 || path === '') continue;
    entries.push({ path, bytes: Number(line.slice(0, tab)) * DU_BLOCK });
    if (entries.length > 2 * CANDIDATE_LIMIT) entries = takeLargest(entries, CANDIDATE_LIMIT);
  }
  return largestEntries(entries);
}

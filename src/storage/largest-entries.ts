/** What takes most of a folder, to two levels, found by a process of its own: a walk through millions of files must not hold this one. */
import { spawn } from 'node:child_process';
import { largestEntries, takeLargest } from '../domain/largest-entries.ts';
import type { DiskEntry } from '../domain/disk.ts';

const LEVELS = 2;
/** As many are remembered on the way: each of the two levels may hold millions. */
const CANDIDATE_LIMIT = 100;
const DU_BLOCK = 1024;

/** Largest first. Rejects with the signal's reason. What comes and goes meanwhile is counted as it was found. */
export async function findLargestEntries(folder: string, signal: AbortSignal): Promise<DiskEntry[]> {
  let entries: DiskEntry[] = [];
  for await (const line of runDu(folder, signal)) {
    const tab = line.indexOf('\t');
    const path = line.slice(tab + 1 + folder.length + 1);
    if (tab < 1 || path === '') continue;
    entries.push({ path, bytes: Number(line.slice(0, tab)) * DU_BLOCK });
    if (entries.length > 2 * CANDIDATE_LIMIT) entries = takeLargest(entries, CANDIDATE_LIMIT);
  }
  signal.throwIfAborted();
  return largestEntries(entries);
}

/** Lines of `du`, ended by NUL, as names may hold anything else. */
async function* runDu(folder: string, signal: AbortSignal): AsyncGenerator<string> {
  const args = ['-n', '19', 'du', '-axk0', `--max-depth=${LEVELS}`, '--', folder];
  const child = spawn('nice', args, { signal, stdio: ['ignore', 'pipe', 'ignore'] });
  // Told by the end of its output, or by the signal.
  child.on('error', () => {});
  child.stdout.setEncoding('utf8');
  let rest = '';
  for await (const piece of child.stdout) {
    const lines = (rest + String(piece)).split('\0');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

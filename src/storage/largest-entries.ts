/** Finds the largest entries, two levels deep, by `du`: a walk here would block the process. */
import { spawn } from 'node:child_process';
import { largestEntries, takeLargest } from '../domain/disk-usage.ts';
import type { DiskEntry } from '../domain/disk.ts';

const LEVELS = 2;
/** Bounds memory: a level may have millions of entries. */
const CANDIDATE_LIMIT = 100;
const DU_BLOCK = 1024;

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

/** Yields NUL-terminated lines, since names may contain newlines. */
async function* runDu(folder: string, signal: AbortSignal): AsyncGenerator<string> {
  const args = ['-n', '19', 'du', '-axk0', `--max-depth=${LEVELS}`, '--', folder];
  const child = spawn('nice', args, { signal, stdio: ['ignore', 'pipe', 'ignore'] });
  // The end of the output or the signal reports errors.
  child.on('error', () => {});
  child.stdout.setEncoding('utf8');
  let rest = '';
  for await (const chunk of child.stdout) {
    const lines = (rest + String(chunk)).split('\0');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

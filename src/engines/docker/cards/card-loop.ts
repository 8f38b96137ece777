/** One `nvidia-smi` for the host prints the cards every few seconds; restarted when silent. */
import { retry } from '../../../async/retry.ts';
import { readingFields } from './readings.ts';
import type { StartSmi } from './smi.ts';

export const INTERVAL_MS = 5_000;
const SILENT_MS = 6 * INTERVAL_MS;
/** Then all cards are asked for again. */
const PARTIAL_MS = 60_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
const MAX_LINE = 4_096;

const UNKNOWN_FIELD = /^Field "([\w.]+)" is not a valid field to query/;

export interface CardLoopOptions {
  start: StartSmi;
  /** True: the reading of a card. */
  onLine: (line: string, fields: readonly string[]) => boolean;
  /** UUIDs to ask for; null: all. */
  only: () => readonly string[] | null;
  onEnd: (error: unknown) => void;
  signal: AbortSignal;
}

export async function runCardLoop({ start, onLine, only, onEnd, signal }: CardLoopOptions): Promise<void> {
  const rejected = new Set<string>();
  const run = async (reset: () => void): Promise<never> => {
    const fields = readingFields.filter((field) => !rejected.has(field));
    const ids = only();
    const args = [
      `--query-gpu=${fields.join(',')}`,
      '--format=csv,noheader,nounits',
      `--loop=${INTERVAL_MS / 1_000}`,
      ...(ids === null ? [] : [`--id=${ids.join(',')}`]),
    ];
    const smi = await start(args, signal);
    const silent = setTimeout(smi.kill, SILENT_MS);
    const partial = ids === null ? undefined : setTimeout(smi.kill, PARTIAL_MS);
    for (const output of [smi.stdout, smi.stderr]) {
      const take = shortLines((line) => {
        silent.refresh();
        const unknown = UNKNOWN_FIELD.exec(line)?.[1];
        if (unknown !== undefined) rejected.add(unknown);
        if (unknown !== undefined || onLine(line, fields)) reset();
      });
      output.setEncoding('utf8').on('data', take);
    }
    try {
      throw new Error(`nvidia-smi ended with the code ${await smi.ended}`);
    } finally {
      clearTimeout(silent);
      clearTimeout(partial);
    }
  };
  await retry(run, { signal, firstMs: FIRST_PAUSE_MS, maxMs: LONGEST_PAUSE_MS, onError: onEnd });
}

/** Splits chunks into lines; drops those above `MAX_LINE`. */
export function shortLines(onLine: (line: string) => void): (chunk: string) => void {
  let rest = '';
  return (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = (lines.pop() ?? '').slice(0, MAX_LINE + 1);
    for (const line of lines) if (line.length <= MAX_LINE) onLine(line);
  };
}

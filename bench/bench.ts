/** What a bench is, and what it is lent. */
import type { Outcome } from './lib/results.ts';

export interface Lent {
  /** An empty folder on the disk where the data is to be, removed afterwards. */
  folder: string;
  /** Words after the names on the command line, such as `--million`. */
  flags: ReadonlySet<string>;
  say: (text: string) => void;
}

export interface Bench {
  title: string;
  run(lent: Lent): Promise<Outcome>;
}

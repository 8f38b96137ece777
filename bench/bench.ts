/** Interface of a bench, and its context. */
import type { Outcome } from './lib/results.ts';

export interface BenchContext {
  /** Empty folder on the data disk, removed afterwards. */
  folder: string;
  /** Command-line flags after the names, such as `--million`. */
  flags: ReadonlySet<string>;
  say: (text: string) => void;
}

export interface Bench {
  title: string;
  run(context: BenchContext): Promise<Outcome>;
}

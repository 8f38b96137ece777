/**
 * Rounds: every candidate once per round, in rotating order, so that a slow minute affects all. A
 * round whose calibrator is more than 15 % off its median is dropped and reported.
 */
import { median } from './numbers.ts';

const OFF_BY = 0.15;

export interface Rounds<Sample> {
  /** Samples of a candidate in the valid rounds, in order. */
  of(name: string): Sample[];
  retained: number;
  dropped: number;
}

export async function alternate<Sample>(options: {
  rounds: number;
  candidates: Record<string, () => Promise<Sample>>;
  /** Validates rounds; null: all are valid. */
  calibrator: { name: string; figure: (sample: Sample) => number } | null;
  say: (text: string) => void;
}): Promise<Rounds<Sample>> {
  const { rounds, candidates, calibrator, say } = options;
  const names = Object.keys(candidates);
  const all: Map<string, Sample>[] = [];
  for (let round = 0; round < rounds; round++) {
    const samples = new Map<string, Sample>();
    for (let offset = 0; offset < names.length; offset++) {
      const name = names[(round + offset) % names.length] ?? '';
      const measure = candidates[name];
      if (!measure) continue;
      say(`  round ${round + 1} of ${rounds}: ${name}`);
      samples.set(name, await measure());
    }
    all.push(samples);
  }
  const retainedRounds = calibrator === null ? all : withoutOutliers(all, calibrator);
  return {
    of: (name) => retainedRounds.flatMap((samples) => samples.get(name) ?? []),
    retained: retainedRounds.length,
    dropped: all.length - retainedRounds.length,
  };
}

function withoutOutliers<Sample>(
  all: Map<string, Sample>[],
  { name, figure }: { name: string; figure: (sample: Sample) => number },
): Map<string, Sample>[] {
  const figureOf = (samples: Map<string, Sample>): number => {
    const sample = samples.get(name);
    return sample === undefined ? Number.NaN : figure(sample);
  };
  const middle = median(all.map(figureOf));
  return all.filter((samples) => Math.abs(figureOf(samples) / middle - 1) <= OFF_BY);
}

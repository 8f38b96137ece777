/** Charts of a region from its history. Pure. */
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import type { ChartFacts } from '../../../parts/chart-facts.ts';
import type { historyRanges } from '../search.ts';

export type History = AnswerOf<'fleetHistory'>;
type Use = Omit<History['steps'][number], 'atUnixMs'>;
export type UseRange = (typeof historyRanges)[number];

const DAY_MS = 86_400_000;
export const rangeMs: Readonly<Record<UseRange, number>> = { day: DAY_MS, weeks: 14 * DAY_MS, quarter: 90 * DAY_MS };

const names = ['gpuNum', 'cpuCores', 'memoryGB', 'diskGB'] as const satisfies (keyof Use)[];

export interface UseChart {
  name: (typeof names)[number];
  facts: ChartFacts;
  now: Use[(typeof names)[number]];
  /** Of the capacity; null: not measured. */
  promised: { mean: number; most: number };
  used: number | null;
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;

/** Steps without data are gaps. Resources that the region never had are left out. */
export function chartsOfRegion(
  { stepSeconds, steps }: History,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): UseChart[] {
  const stepMs = stepSeconds * 1_000;
  const first = Math.floor(fromMs / stepMs) * stepMs;
  const byTime = new Map(steps.map((step) => [step.atUnixMs, step]));
  const starts = Array.from({ length: Math.ceil((toMs - first) / stepMs) }, (_, nth) => first + nth * stepMs);
  return names.flatMap((name): UseChart[] => {
    const known = steps.map((step) => step[name]).filter(({ total }) => total > 0);
    const now = known.at(-1);
    if (now === undefined) return [];
    const line = (part: keyof typeof now) => starts.map((at) => byTime.get(at)?.[name][part] ?? null);
    const shares = known.map(({ promised, total }) => promised / total);
    const used = known.flatMap(({ used: amount, total }) => (amount === null ? [] : [amount / total]));
    return [
      {
        name,
        facts: {
          times: starts.map((at) => at / 1_000),
          lines: [line('promised'), line('used')],
          limits: line('total'),
          fromS: fromMs / 1_000,
          toS: toMs / 1_000,
          isBinary: false,
        },
        now,
        promised: { mean: meanOf(shares), most: shares.reduce((most, one) => Math.max(most, one), 0) },
        used: used.length === 0 ? null : meanOf(used),
      },
    ];
  });
}

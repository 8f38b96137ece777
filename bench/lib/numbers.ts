/** Medians, ranges and their format. Pure. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Linear interpolation. NaN for an empty list. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)] ?? Number.NaN;
  const high = sorted[Math.ceil(at)] ?? Number.NaN;
  return low + (high - low) * (at - Math.floor(at));
}

const digits = (value: number): string => {
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en');
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
};

export const shown = (value: number): string => (Number.isFinite(value) ? digits(value) : '-');

/** `median [min-max]`. */
export const spread = (values: readonly number[]): string =>
  values.length === 0 ? '-' : `${shown(median(values))} [${shown(Math.min(...values))}-${shown(Math.max(...values))}]`;

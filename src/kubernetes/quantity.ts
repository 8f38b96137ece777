/** Quantities of Kubernetes, such as `250m`, `1Gi` or `1e3`. */
const factors: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** NaN for text that is no quantity. */
export function quantityOf(text: string): number {
  const [, digits, unit = ''] = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([numkKMGTPE]?i?)$/.exec(text) ?? [];
  return Number(digits) * (factors[unit] ?? Number.NaN);
}

/** Thousandths, such as those of a core. */
export const milliOf = (text: string): number => Math.round(quantityOf(text) * 1000);

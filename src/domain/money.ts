/** Integer micro-dollars, so sums are exact. Only the edge converts them to floating dollars. */
export type Micros = bigint;

const MICROS_PER_DOLLAR = 1_000_000n;

/** Exact up to nine billion dollars. */
export const toDollars = (micros: Micros): number => Number(micros) / Number(MICROS_PER_DOLLAR);

export const fromDollars = (dollars: number): Micros => BigInt(Math.round(dollars * Number(MICROS_PER_DOLLAR)));

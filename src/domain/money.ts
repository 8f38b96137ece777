/** Money is whole micro-dollars in a bigint: sums are exact, and only the edge turns them into the interface's floating dollars. */
export type Micros = bigint;

const MICROS_PER_DOLLAR = 1_000_000n;

/** Dollars as the interface shows them (`price`, `balance`: numbers). Exact up to nine billion dollars. */
export const toDollars = (micros: Micros): number => Number(micros) / Number(MICROS_PER_DOLLAR);

/** Micro-dollars of an operator's dollar figure, rounded to the nearest micro-dollar. */
export const fromDollars = (dollars: number): Micros => BigInt(Math.round(dollars * Number(MICROS_PER_DOLLAR)));

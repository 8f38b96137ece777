/** Reads members of an address; what is not understood is left out. */

/** Numbers are texts: the address `?q=2026` holds one. */
export function textOf(value: unknown): string | undefined {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && text !== '' ? text : undefined;
}

export const oneOf = <Value extends string>(value: unknown, known: readonly Value[]): Value | undefined =>
  known.find((each) => each === value);

/** Narrows a stored text to one of `values`; throws for any other. */
export function oneOf<T extends string>(values: readonly T[], text: string): T {
  const found = values.find((value) => value === text);
  if (found === undefined) throw new Error(`unknown value ${text}; known are ${values.join(', ')}`);
  return found;
}

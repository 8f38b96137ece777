export function oneOf<T extends string>(values: readonly T[], text: string): T {
  const found = values.find((value) => value === text);
  if (found === undefined) throw new Error(`unknown value ${text}; known are ${values.join(', ')}`);
  return found;
}

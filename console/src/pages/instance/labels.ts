/** Labels as texts `key=value`. Pure. */

export const textsOf = (labels: Readonly<Record<string, string>>): string[] =>
  Object.entries(labels).map(([key, value]) => `${key}=${value}`);

/** Null for a text that is no label: the API checks what a key and a value may hold. */
export function labelOf(text: string): [string, string] | null {
  const at = text.indexOf('=');
  const [key, value] = at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
  return key.trim() === '' ? null : [key.trim(), value.trim()];
}

export const labelsOf = (texts: readonly string[]): Record<string, string> =>
  Object.fromEntries(texts.map(labelOf).filter((label) => label !== null));

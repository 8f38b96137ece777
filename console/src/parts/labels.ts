/** Labels as texts `key=value`, and as lines of such texts. */

export const textsOf = (labels: Readonly<Record<string, string>>): string[] =>
  Object.entries(labels).map(([key, value]) => (value === '' ? key : `${key}=${value}`));

export const linesOf = (labels: Readonly<Record<string, string>>): string => textsOf(labels).join('\n');

/** A line without `=` is a key without a value; the API says what a key may not be. */
export const labelsOf = (lines: string): Record<string, string> =>
  Object.fromEntries(
    lines
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map((line) => {
        const at = line.indexOf('=');
        return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
  );

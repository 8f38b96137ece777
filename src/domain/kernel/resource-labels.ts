/** Labels of instances and volumes, by which lists are filtered: the syntax of Kubernetes. */

export type Labels = Readonly<Record<string, string>>;

export const labelLimits = { count: 32, prefixCharacters: 253, characters: 63 } as const;

const { count, prefixCharacters, characters } = labelLimits;
const WORD = '[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?';
const DNS = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
export const labelKeyPattern = `^(?:(?=[^/]{1,${prefixCharacters}}/)${DNS}(?:\\.${DNS})*/)?${WORD}$`;
export const labelValuePattern = `^(?:${WORD})?$`;
const KEY = new RegExp(labelKeyPattern);
const VALUE = new RegExp(labelValuePattern);

const SHOWN_CHARACTERS = 60;
const shown = (text: string): string =>
  text.length <= SHOWN_CHARACTERS ? JSON.stringify(text) : `${JSON.stringify(text.slice(0, SHOWN_CHARACTERS))}…`;

/** Sentence that says what is wrong and what works; null for valid labels. */
export function refusalOfLabels(labels: Labels): string | null {
  const entries = Object.entries(labels);
  if (entries.length > count) return `has ${entries.length} labels: it must have at most ${count}`;
  for (const [key, value] of entries) {
    if (!KEY.test(key))
      return `has the key ${shown(key)}: a key must be at most ${characters} letters, digits, "-", "_" and ".", begin and end with a letter or digit, and may have a domain before it, for example "team" or "example.org/team"`;
    if (!VALUE.test(value))
      return `has the value ${shown(value)} for ${JSON.stringify(key)}: a value must be empty, or at most ${characters} letters, digits, "-", "_" and ".", and begin and end with a letter or digit`;
  }
  return null;
}

/** JSON of the labels, keys sorted; null without labels. */
export function labelsText(labels: Labels): string | null {
  const entries = Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.length === 0 ? null : JSON.stringify(Object.fromEntries(entries));
}

/** Adds stored labels to the JSON text of a public object. */
export const withLabels = (publicText: string, labels: string | null): string =>
  labels === null ? publicText : `${publicText.slice(0, -1)},"labels":${labels}}`;

/** Form of a name in which a filter finds a part of it, in any letter case. */
export const searchForm = (name: string): string => name.normalize('NFC').toLowerCase();

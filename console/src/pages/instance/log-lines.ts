/** Lines of a log as the page shows them. Pure. */

// Colours, cursor moves and titles of terminals.
// oxlint-disable-next-line no-control-regex
const ESCAPES = /\u001B(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001B]*(?:\u0007|\u001B\\)?|[@-Z\\^_])/g;
// oxlint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000B-\u001F\u007F]/g;

/** Text without escapes; of what a carriage return overwrites, the last. */
export const plainOf = (text: string): string => {
  const last =
    text
      .replaceAll(ESCAPES, '')
      .split('\r')
      .findLast((part) => part !== '') ?? '';
  return last.replaceAll(CONTROL, '');
};

export interface ShownLine {
  key: number;
  atUnixMs: number | null;
  text: string;
  /** Not of the log: what happened to it. */
  isNote: boolean;
}

export const MOST_LINES = 20_000;

/** Keeps the newest lines. */
export const withLines = (lines: readonly ShownLine[], more: readonly ShownLine[]): readonly ShownLine[] =>
  [...lines, ...more].slice(-MOST_LINES);

export const matching = (lines: readonly ShownLine[], find: string): readonly ShownLine[] => {
  const wanted = find.toLowerCase();
  return wanted === '' ? lines : lines.filter(({ text }) => text.toLowerCase().includes(wanted));
};

/** A text cut at what was looked for: every second part is a hit. */
export function partsOf(text: string, find: string): string[] {
  if (find === '') return [text];
  const parts: string[] = [];
  const [low, wanted] = [text.toLowerCase(), find.toLowerCase()];
  let from = 0;
  for (let at = low.indexOf(wanted); at !== -1; at = low.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), text.slice(at, at + find.length));
    from = at + find.length;
  }
  return [...parts, text.slice(from)];
}

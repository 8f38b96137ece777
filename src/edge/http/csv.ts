/** Lines of CSV (RFC 4180) that no spreadsheet reads as formulas. */

const FORMULA = /^[\s]*[=+\-@\t\r|%＝＋－＠]/;
const QUOTED = /[",\r\n\t']|^\s|\s$/;

/** A number stays as it is; a text that could be a formula begins with an apostrophe. */
function cellOf(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csvLine = (cells: readonly (string | number | null)[]): string => `${cells.map(cellOf).join(',')}\r\n`;

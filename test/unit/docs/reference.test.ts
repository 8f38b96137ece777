/**
 * The reference pages name every status, phase, reason, error code and setting of the code, and no
 * other; every page names only fields, files and headings that exist; decisions have numbers of
 * their own.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { diagnoses, instanceStatuses, phases } from '../../../src/domain/compute/instance-states.ts';
import { startOutcomes } from '../../../src/domain/compute/start-outcomes.ts';
import { snapshotStatuses } from '../../../src/domain/storage/snapshot.ts';
import { volumeStatuses } from '../../../src/domain/storage/volume.ts';
import { errorKinds } from '../../../src/edge/http/status.ts';

const root = path.join(import.meta.dirname, '../../..');
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');

/** Code words in the first cells of the table rows below the heading. */
function rowsBelow(page: string, heading: string): string[] {
  const section = page.split(/^#+ /m).find((text) => text.startsWith(heading)) ?? '';
  return section
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, word = '']) => word));
}

describe('docs/reference/states.md', () => {
  const page = read('docs/reference/states.md');
  test.each([
    ['Instance status', instanceStatuses],
    ['Phase', phases],
    ['diagnosisReason', Object.keys(diagnoses).filter((reason) => reason !== '')],
    ['Volumes and snapshots', [...volumeStatuses, ...snapshotStatuses]],
  ])('lists exactly the values of %s', (heading, values) => {
    expect([...new Set(rowsBelow(page, heading))].sort()).toEqual([...new Set<string>(values)].sort());
  });
});

test('docs/reference/billing.md lists exactly who pays for a start that each reason ends', () => {
  const section = read('docs/reference/billing.md')
    .split(/^## /m)
    .find((text) => text.startsWith('Starts that fail'));
  const rows = [...(section ?? '').matchAll(/^\| (paid|refunded|free)\b[^|]*\| (.*) \|$/gm)];
  const listed = rows.flatMap(([, outcome = '', reasons = '']) =>
    [...reasons.matchAll(/`(\w+)`/g)].map(([, reason = '']) => [reason, outcome]),
  );
  const { '': byOwner, ...byReason } = startOutcomes;
  expect(byOwner).toBe('paid');
  expect(listed.toSorted()).toEqual(Object.entries(byReason).toSorted());
});

test('docs/reference/errors.md lists each code with its HTTP status', () => {
  const rows = [...read('docs/reference/errors.md').matchAll(/^\| `(\w+)` \| (\d+) \|/gm)];
  const listed = Object.fromEntries(rows.map(([, code = '', status]) => [code, Number(status)]));
  expect(listed).toEqual(Object.fromEntries(Object.entries(errorKinds).map(([code, { status }]) => [code, status])));
});

test('docs/reference/settings.md lists exactly the settings of the server, and BERTH_SETUP of the scripts', () => {
  const sources = ['config', 'link-config', 'money-config', 'sign-on-config']
    .map((name) => read(`src/main/${name}.ts`))
    .join('\n');
  const schema = [...sources.matchAll(/^\s+(BERTH_\w+):/gm)].map(([, name]) => name);
  const listed = [...read('docs/reference/settings.md').matchAll(/^\| (.*?) \|/gm)].flatMap(
    ([, cell = '']) => cell.match(/\bBERTH_\w+/g) ?? [],
  );
  expect(schema.length).toBeGreaterThan(40);
  expect(listed.sort()).toEqual([...new Set(schema), 'BERTH_SETUP'].sort());
});

test('docs/kubernetes.md lists exactly the settings of a cluster', () => {
  const table = /\n## Settings\n([^]*?)\n## /.exec(read('docs/kubernetes.md'))?.[1] ?? '';
  const listed = [...table.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = '']) => cell.match(/\w+/g) ?? []);
  const { components } = JSON.parse(read('docs/openapi.json')) as {
    components: { schemas: { KubernetesEngineSettings: { properties: object } } };
  };
  expect(listed.sort()).toEqual(Object.keys(components.schemas.KubernetesEngineSettings.properties).sort());
});

test('each decision has a number of its own, in its file name and its title', () => {
  const files = globSync('docs/decisions/*.md', { cwd: root });
  const titled = files.map((file) => /^# (\d+)\. /.exec(read(file))?.[1]?.padStart(4, '0'));
  expect(titled).toEqual(files.map((file) => path.basename(file).slice(0, 4)));
  expect(new Set(titled).size).toBe(files.length);
});

test('the documents name only fields and functions that exist', () => {
  const wordsOf = (pattern: string): string[] =>
    globSync(pattern, { cwd: root }).flatMap((file) => read(file).match(/\w+/g) ?? []);
  const known = new Set(
    ['src/**/*.ts', 'test/{fixtures,kubernetes/cluster}/*.ts', 'docs/openapi.json', 'deploy/**/*.{tpl,yaml}'].flatMap(
      wordsOf,
    ),
  );
  const code = /```[^]*?```|`[^`\n]+`/g;
  /** A name in camel case that no path, URL or option has around it. */
  const name = /(?<![\w/.\-$<])[a-z]+[A-Z]\w*(?![\w/(.-])/g;
  const named = globSync(['README.md', 'docs/*.md', 'docs/reference/*.md'], { cwd: root }).flatMap((page) =>
    (read(page).match(code) ?? []).flatMap((span) => (span.match(name) ?? []).map((word) => ({ page, word }))),
  );
  expect(named.length).toBeGreaterThan(150);
  expect(named.filter(({ word }) => !known.has(word))).toEqual([]);
});

test('docs/escapes.md names tests that exist', () => {
  const rows = [...read('docs/escapes.md').matchAll(/\| `([\w/-]+)`: (.+) \|$/gm)];
  expect(rows.length).toBeGreaterThan(7);
  const missing = rows.filter(
    ([, file = '', title = '']) => !['.ts', '.test.ts'].some((end) => hasTitle(`test/${file}${end}`, title)),
  );
  expect(missing.map(([row]) => row)).toEqual([]);
});

const codeBlock = /^```[^]*?^```/gm;

/** Fragments of the headings of a page, as GitHub makes them. */
const headingsOf = (page: string): string[] =>
  [
    ...read(page)
      .replaceAll(codeBlock, '')
      .matchAll(/^#+ (.+)$/gm),
  ].map(([, title = '']) =>
    title
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
      .replaceAll(' ', '-'),
  );

test('each link of a document leads to a file and a heading of the repository', () => {
  const pages = globSync(['*.md', '{.github,bench,docs,images}/**/*.md'], { cwd: root });
  const links = pages.flatMap((page) =>
    [
      ...read(page)
        .replaceAll(codeBlock, '')
        .matchAll(/\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)/g),
    ].map(([, file = '', heading = '']) => {
      const target = file === '' ? page : path.join(path.dirname(page), file);
      return { page, target, heading };
    }),
  );
  expect(links.length).toBeGreaterThan(250);
  const isDead = ({ target, heading }: (typeof links)[number]): boolean =>
    !existsSync(path.join(root, target)) || (heading !== '' && !headingsOf(target).includes(heading));
  expect(links.filter(isDead)).toEqual([]);
});

const hasTitle = (file: string, title: string): boolean =>
  globSync(file, { cwd: root }).some((found) => read(found).includes(title));

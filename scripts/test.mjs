/**
 * `npm test [-- arguments for vitest]`: installs what the tests need, runs the projects of
 * `vitest.config.ts` one after the other, and prints what each took against its budget; the very
 * last line is `N passed, N failed, N skipped`.
 *
 * `BERTH_TEST_LEVEL` is `short`, unless `npm run test:long` or `npm run test:soak` say `--level
 * long` or `--level soak`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { readArguments } from './lib/arguments.mjs';
import { currentDockerCommand, currentDockerNeeds } from './lib/current-docker.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { usualAddress } from './lib/engine-address.mjs';
import { ensureEngine } from './lib/engine.mjs';
import { ensureKubernetes, kubernetesNeeds } from './lib/kubernetes.mjs';
import { neighbourNeeds, testNeeds } from './lib/needs.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { capture, root, runCommand, runInFront, say, secondsSince, Unready } from './lib/run.mjs';
import { budgetLines, longOnlyFiles, projects as allProjects, usualProjects } from './lib/projects.mjs';
import { addUp, closingLines, failure, totalsOfRun } from './lib/totals.mjs';

/** @param {string} project */
const needOf = (project) => allProjects.find(({ name }) => name === project)?.needs ?? 'node';

const levels = ['short', 'long', 'soak'];

const USAGE = `npm test                                   all projects, one proof per promise
npm run test:long                          the full products, about two hours
npm run test:kubernetes                    a real Kubernetes, built once in about ten minutes
npm run test:world                         a current Docker, built once, programs of registries, a real card
npm test -- --project unit FILE -t TITLE   projects, files and titles
           --level short|long|soak         how much of each product

Projects: ${allProjects.map(({ name }) => name).join(', ')}. All other arguments are vitest's.`;

await runCommand(async () => {
  const { projects, level, rest, buildsKubernetes } = readChoices(process.argv.slice(2));
  await ensureDependencies();
  const node = findNode24();
  /** @type {NodeJS.ProcessEnv} */
  const env = { ...envWithNode(node), BERTH_TEST_LEVEL: level };
  // Each test file is a process: without the cache each compiles the libraries again.
  env['NODE_COMPILE_CACHE'] ??= path.join(root, 'node_modules/.cache/node-compile');
  const builds = buildsKubernetes || level !== 'short';
  if (projects.some((project) => needOf(project) !== 'node')) {
    const ofCluster = projects.includes('kubernetes') ? kubernetesNeeds({ builds }) : [];
    const ofDocker = projects.includes('world') ? currentDockerNeeds() : [];
    const ofNeighbours = projects.includes('neighbours') ? neighbourNeeds : [];
    const alsoNeeded = [...testNeeds, ...ofCluster, ...ofDocker, ...ofNeighbours];
    const engine = await ensureEngine({ alsoNeeded });
    if (engine !== undefined && engine !== usualAddress) env['DOCKER_HOST'] = engine;
  }

  const needsImages = projects.some((project) => needOf(project) === 'engine');
  // Docker tests need the default images; building them takes most of a minute.
  const images = needsImages ? capture({ command: node, args: ['test/fixtures/docker-images-setup.ts'], env }) : null;

  const folder = mkdtempSync(path.join(os.tmpdir(), 'berth-totals-'));
  const all = [];
  /** @type {{ name: string, tookS: number }[]} */
  const runs = [];
  try {
    for (const project of projects) {
      const startedAt = performance.now();
      if (needOf(project) === 'engine') await images;
      /** @type {{ command?: string[], why?: string }} */
      const current = project === 'world' ? await currentDockerCommand() : {};
      const whyNot = project === 'kubernetes' ? await ensureKubernetes({ builds }) : current.why;
      if (whyNot !== undefined) {
        all.push({ ...addUp([]), skipped: [{ name: `the tests of ${project}`, note: whyNot }] });
        continue;
      }
      const file = path.join(folder, `${project}.json`);
      say(`\n== ${project} tests`);
      const part = ['--project', project, '--project', `${project}-alone`];
      const args = ['node_modules/vitest/vitest.mjs', 'run', ...part, '--passWithNoTests'];
      const reporters = ['--reporter=default', '--reporter=./scripts/totals-reporter.ts'];
      const [command = node, ...given] = [...(current.command ?? []), node, ...args, ...reporters, ...rest];
      const run = { command, args: given, env: { ...env, BERTH_TOTALS_FILE: file } };
      const { code, signal } = await runInFront(run);
      all.push(totalsOfRun({ project, file, code }));
      runs.push({ name: project, tookS: (performance.now() - startedAt) / 1000 });
      say(`== ${project}: ${secondsSince(startedAt)}`);
      if (signal !== null || code === 130 || code === 143) {
        all.push(failure('the tests', 'interrupted before all tests had run'));
        break;
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }

  if (all.every(({ passed, failed, skipped }) => passed + failed.length + skipped.length === 0))
    all.push(failure('the tests', `no test file found${rest.length > 0 ? ` by ${rest.join(' ')}` : ''}`));
  const totals = addUp(all);
  say('');
  for (const line of budgetLines(runs, level)) say(line);
  if (level === 'short' && rest.length === 0)
    say(
      `${longOnlyFiles().length} files, and the full products of others, run only by npm run test:long: docs/testing.md`,
    );
  for (const line of closingLines(totals)) say(line);
  return totals.failed.length === 0 ? 0 : 1;
});

/**
 * `--project name` chooses projects, `--level name` how much of each product is tried; all else is
 * vitest's.
 * @param {string[]} given
 */
function readChoices(given) {
  const chosen = [];
  const rest = [];
  let level = process.env['BERTH_TEST_LEVEL'] ?? 'short';
  if (given.some((argument) => ['--help', '-h'].includes(argument))) readArguments(USAGE, { args: ['--help'] });
  for (let at = 0; at < given.length; at += 1) {
    const argument = given[at] ?? '';
    if (argument.startsWith('--project=')) chosen.push(argument.slice('--project='.length));
    else if (argument === '--project') chosen.push(given[(at += 1)] ?? '');
    else if (argument === '--level') level = given[(at += 1)] ?? '';
    else rest.push(argument);
  }
  if (!levels.includes(level)) throw new Unready(`--level is ${level}: it must be one of ${levels.join(', ')}`);
  return {
    projects: chosen.length > 0 ? chosen : usualProjects.map(({ name }) => name),
    level,
    rest,
    buildsKubernetes: chosen.includes('kubernetes'),
  };
}

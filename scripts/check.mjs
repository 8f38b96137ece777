/**
 * `npm run check`: what a change must pass before it is worth a reader's time: types, lint, format,
 * dead code, the unit tests. All at once; the output of a step is shown when it failed. Caches tell
 * what did not change since the last check.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { capture, runCommand, say, secondsSince } from './lib/run.mjs';
import { closingLines, totalsOfRun } from './lib/totals.mjs';

/** @param {string} name */
const incremental = (name) => ['--incremental', '--tsBuildInfoFile', `node_modules/.cache/${name}.tsbuildinfo`];

const USAGE = 'npm run check   types, lint, format, dead code and unit tests';

await runCommand(async () => {
  readArguments(USAGE);
  await ensureDependencies();
  const node = findNode24();
  const folder = mkdtempSync(path.join(os.tmpdir(), 'berth-totals-'));
  const file = path.join(folder, 'unit.json');
  const env = { ...envWithNode(node), BERTH_TOTALS_FILE: file };
  const steps = [
    { name: 'types', args: ['node_modules/typescript/bin/tsc', '-p', '.', ...incremental('types')] },
    {
      name: 'console',
      args: ['node_modules/typescript/bin/tsc', '-p', 'console', ...incremental('console')],
    },
    { name: 'lint', args: ['node_modules/oxlint/bin/oxlint', '--type-aware', '--deny-warnings'] },
    {
      name: 'format',
      args: [
        'node_modules/prettier/bin/prettier.cjs',
        '--check',
        '--log-level=warn',
        '--cache',
        '--cache-strategy=content',
        '.',
      ],
    },
    {
      name: 'dead code',
      args: ['node_modules/knip/bin/knip.js', '--no-progress', '--cache', '--cache-location=node_modules/.cache/knip'],
    },
    {
      name: 'unit tests',
      args: [
        'node_modules/vitest/vitest.mjs',
        'run',
        '--project=unit',
        '--passWithNoTests',
        '--reporter=dot',
        '--reporter=./scripts/totals-reporter.ts',
      ],
    },
  ];
  const startedAt = performance.now();
  const failed = (
    await Promise.all(
      steps.map(async ({ name, args }) => {
        const begunAt = performance.now();
        const { code, output } = await capture({ command: node, args, env });
        say(`${code === 0 ? 'ok    ' : 'FAILED'} ${name.padEnd(10)} ${secondsSince(begunAt)}`);
        if (code !== 0) say(output.trimEnd().replaceAll(/^/gm, '  | '));
        return code === 0 ? [] : [name];
      }),
    )
  ).flat();
  for (const line of closingLines(totalsOfRun({ project: 'unit', file, code: 0 })))
    if (line.includes('is not installed')) say(line);
  rmSync(folder, { recursive: true, force: true });
  say(
    `${failed.length === 0 ? 'All checks passed' : `Failed: ${failed.join(', ')}`}, ${secondsSince(startedAt)} in all.`,
  );
  return failed.length === 0 ? 0 : 1;
});

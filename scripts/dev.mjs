/**
 * `npm run dev`: the server on the simulated engine, with its data in `.berth/dev`, restarted
 * when a source file changes.
 */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { program } from './lib/program.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

const USAGE = `npm run dev     starts Berth on the simulated engine, and again when a source file changes

Settings are environment variables: docs/reference/settings.md`;

await runCommand(async () => {
  readArguments(USAGE);
  await ensureDependencies();
  const node = findNode24();
  const env = {
    BERTH_ENGINE: 'simulated',
    BERTH_DATA: '.berth/dev',
    BERTH_LOG_FORMAT: 'readable',
    ...envWithNode(node),
  };
  const args = ['--watch', '--watch-preserve-output', '--watch-path=src', ...program];
  return becomeProgram({ command: node, args, env });
});

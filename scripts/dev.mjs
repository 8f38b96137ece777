/**
 * `npm run dev`: the server on the simulated engine, with its data in `.berth/dev`, restarted
 * when a source file changes. Its log, JSON lines, is shown as lines for people.
 */
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { program } from './lib/program.mjs';
import { readableLog } from './lib/readable-log.mjs';
import { runCommand, runInFront } from './lib/run.mjs';

await runCommand(async () => {
  await ensureDependencies();
  const node = findNode24();
  const env = { BERTH_ENGINE: 'simulated', BERTH_DATA: '.berth/dev', ...envWithNode(node) };
  const args = ['--watch', '--watch-preserve-output', '--watch-path=src', ...program, ...process.argv.slice(2)];
  const log = readableLog({ write: (text) => process.stdout.write(text), colors: process.stdout.isTTY === true });
  const { code } = await runInFront({ command: node, args, env, stdout: log });
  return code;
});

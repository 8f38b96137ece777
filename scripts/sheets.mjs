/** `npm run sheets [-- PLACE …]`: a sheet of pictures of each place of the web console. */
import { readArguments } from './lib/arguments.mjs';
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

const USAGE = `npm run sheets                     pictures of all places of the web console
npm run sheets -- billing launch   of these places`;

await runCommand(async () => {
  const { positionals } = readArguments(USAGE, { allowPositionals: true });
  await ensureDependencies();
  const node = findNode24();
  return becomeProgram({
    command: node,
    args: ['test/console/contact-sheets.ts', ...positionals],
    env: envWithNode(node),
  });
});

/**
 * `npm run simulate [-- arguments]`: seeds of the simulation in `test/simulation/`, under Node 24.
 */
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

await runCommand(async () => {
  await ensureDependencies();
  const node = findNode24();
  const args = ['test/simulation/command.ts', ...process.argv.slice(2)];
  return becomeProgram({ command: node, args, env: envWithNode(node) });
});

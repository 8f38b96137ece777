/** `npm run bench [-- arguments]`: the benchmarks of `bench/`, under Node 24. */
import { ensureDependencies } from './lib/dependencies.mjs';
import { envWithNode, findNode24 } from './lib/node24.mjs';
import { becomeProgram, runCommand } from './lib/run.mjs';

await runCommand(async () => {
  await ensureDependencies();
  const node = findNode24();
  return becomeProgram({ command: node, args: ['bench/run.ts', ...process.argv.slice(2)], env: envWithNode(node) });
});
